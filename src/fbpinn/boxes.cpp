#include <shardsolve/error.hpp>
#include <shardsolve/fbpinn_boxes.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace shardsolve::fbpinn {
namespace {

[[noreturn]] void refuse_boxes(const std::string& message) {
  throw Error(ErrorKind::invalid_argument, message);
}

constexpr std::int64_t max_boxes = std::int64_t{1} << 20;

void require_domain(const std::vector<Interval>& domain, const std::vector<std::int64_t>& counts) {
  if (domain.empty() || domain.size() > max_axes || domain.size() != counts.size()) {
    refuse_boxes(
        fmt::format("{} intervals and {} counts given; 1 to {} are accepted, as many of "
                    "one as of the other",
                    domain.size(), counts.size(), max_axes));
  }
  std::int64_t boxes = 1;
  for (std::size_t axis = 0; axis < domain.size(); ++axis) {
    const auto [low, high] = domain[axis];
    if (!std::isfinite(low) || !std::isfinite(high) || low >= high) {
      refuse_boxes(
          fmt::format("the interval from {} to {} was given for axis {}; finite bounds "
                      "that rise are accepted",
                      low, high, axis));
    }
    if (counts[axis] < 1 || counts[axis] > max_boxes) {
      refuse_boxes(fmt::format("{} boxes were given for axis {}; 1 to {} are accepted",
                               counts[axis], axis, max_boxes));
    }
    boxes *= counts[axis];
    if (boxes > max_boxes) {
      refuse_boxes(
          fmt::format("more than {} boxes were asked for; use fewer along each axis", max_boxes));
    }
  }
}

/// A number that looks random, for each place in each stream (SplitMix64; Steele, Lea, Flood 2014).
std::uint64_t scrambled(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace

Boxes::Boxes(int axes, std::vector<double> centers, std::vector<double> half_widths)
    : axes_(axes),
      centers_(std::move(centers)),
      half_widths_(std::move(half_widths)),
      level_of_(centers_.size() / static_cast<std::size_t>(axes), 0) {}

Boxes Boxes::regular(const std::vector<Interval>& domain, const std::vector<std::int64_t>& counts,
                     double overlap) {
  require_domain(domain, counts);
  if (!(overlap > 1.0) || !std::isfinite(overlap)) {
    refuse_boxes(
        fmt::format("overlap = {} given: boxes as wide as overlap times the distance of their "
                    "centers cover the domain for more than 1 only; 2 to 3 is usual",
                    overlap));
  }
  const auto axes = static_cast<int>(domain.size());
  std::int64_t count = 1;
  for (const std::int64_t along : counts) {
    count *= along;
  }
  std::vector<double> centers;
  std::vector<double> half_widths;
  for (std::int64_t box = 0; box < count; ++box) {
    std::int64_t behind = count;
    for (std::size_t axis = 0; axis < domain.size(); ++axis) {
      const auto [low, high] = domain[axis];
      const std::int64_t along = counts[axis];
      behind /= along;
      const std::int64_t place = box / behind % along;
      const double distance = (high - low) / static_cast<double>(along > 1 ? along - 1 : 1);
      centers.push_back(along > 1 ? low + static_cast<double>(place) * distance
                                  : low + (high - low) / 2);
      half_widths.push_back(overlap / 2 * distance);
    }
  }
  Boxes boxes(axes, std::move(centers), std::move(half_widths));
  boxes.domain_ = domain;
  return boxes;
}

void Boxes::set_domain(std::vector<Interval> domain) {
  require_domain(domain, std::vector<std::int64_t>(static_cast<std::size_t>(axes_), 1));
  domain_ = std::move(domain);
}

Boxes Boxes::from_arrays(int axes, std::vector<double> centers, std::vector<double> half_widths) {
  if (axes < 1 || axes > max_axes) {
    refuse_boxes(fmt::format("boxes with {} axes given; 1 to {} are accepted", axes, max_axes));
  }
  const auto per_box = static_cast<std::size_t>(axes);
  if (centers.empty() || centers.size() != half_widths.size() || centers.size() % per_box != 0) {
    refuse_boxes(
        fmt::format("{} numbers of centers and {} of half widths given; for n boxes in {} "
                    "dimensions both have {} n",
                    centers.size(), half_widths.size(), axes, axes));
  }
  for (std::size_t i = 0; i < centers.size(); ++i) {
    if (!std::isfinite(centers[i]) || !std::isfinite(half_widths[i]) || half_widths[i] <= 0) {
      refuse_boxes(
          fmt::format("box {} has the center {} and the half width {} along axis {}; "
                      "finite centers and positive half widths are accepted",
                      i / per_box, centers[i], half_widths[i], i % per_box));
    }
  }
  return {axes, std::move(centers), std::move(half_widths)};
}

void Boxes::add_level(const Boxes& level) {
  if (level.axes_ != axes_) {
    refuse_boxes(
        fmt::format("a level with {} axes was added to boxes with {}; they must be as "
                    "many",
                    level.axes_, axes_));
  }
  centers_.insert(centers_.end(), level.centers_.begin(), level.centers_.end());
  half_widths_.insert(half_widths_.end(), level.half_widths_.begin(), level.half_widths_.end());
  for (const std::int32_t of : level.level_of_) {
    level_of_.push_back(levels_ + of);
  }
  levels_ += level.levels_;
}

Mlp Mlp::of(OwnUnits units) {
  if (!units.jets) {
    refuse_boxes("own units without a function given: set OwnUnits::jets");
  }
  if (units.parameters < 0) {
    refuse_boxes(fmt::format("own units with {} parameters given; 0 or more are accepted",
                             units.parameters));
  }
  Mlp mlp;
  mlp.hidden = {units.count};
  mlp.own = std::make_shared<const OwnUnits>(std::move(units));
  mlp.require_valid();
  return mlp;
}

void Mlp::require_valid() const {
  constexpr std::size_t max_layers = 8;
  constexpr std::int64_t max_units = 4096;
  if (hidden.empty() || hidden.size() > max_layers) {
    refuse_boxes(fmt::format("a network with {} hidden layers given; 1 to {} are accepted",
                             hidden.size(), max_layers));
  }
  for (const std::int64_t units : hidden) {
    if (units < 1 || units > max_units) {
      refuse_boxes(
          fmt::format("a hidden layer of {} units given; 1 to {} are accepted", units, max_units));
    }
  }
  if (activation > Activation::silu) {
    refuse_boxes(
        fmt::format("activation number {} given; tanh, sin, sigmoid, softplus, gaussian "
                    "and silu are accepted",
                    static_cast<int>(activation)));
  }
}

std::int64_t Mlp::weights(int axes) const {
  if (own != nullptr) {
    return own->parameters;
  }
  std::int64_t count = 0;
  std::int64_t inputs = axes;
  for (const std::int64_t units : hidden) {
    count += units * (inputs + 1);
    inputs = units;
  }
  return count;
}

std::vector<double> Mlp::random_weights(int axes, std::int64_t boxes, std::uint64_t seed,
                                        double scale) const {
  require_valid();
  std::vector<double> result;
  if (own != nullptr) {
    if (static_cast<std::int64_t>(own->start.size()) != boxes * own->parameters) {
      refuse_boxes(
          fmt::format("own units begin with {} parameters; {} for each of {} boxes are accepted",
                      own->start.size(), own->parameters, boxes));
    }
    return own->start;
  }
  result.reserve(static_cast<std::size_t>(boxes * weights(axes)));
  for (std::int64_t box = 0; box < boxes; ++box) {
    const std::uint64_t stream = scrambled(scrambled(seed) + static_cast<std::uint64_t>(box));
    std::uint64_t place = 0;
    std::int64_t inputs = axes;
    for (const std::int64_t units : hidden) {
      const double bound = scale / std::sqrt(static_cast<double>(inputs));
      for (std::int64_t i = 0; i < units * (inputs + 1); ++i) {
        // 53 bits make a number of [0, 1).
        const auto bits = static_cast<double>(scrambled(stream + place++) >> 11U);
        result.push_back(bound * (bits * 0x1p-52 - 1.0));
      }
      inputs = units;
    }
  }
  return result;
}

}  // namespace shardsolve::fbpinn
