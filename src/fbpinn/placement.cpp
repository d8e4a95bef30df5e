#include "fbpinn/pairs.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/fbpinn_placement.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace shardsolve::fbpinn {
namespace placing {

std::int64_t count_of(const Boxes& boxes, std::span<const double> points) {
  const auto axes = static_cast<std::size_t>(boxes.axes());
  if (points.size() % axes != 0 || points.empty()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} coordinates given; {} for each of at least one point are accepted",
                            points.size(), axes));
  }
  return static_cast<std::int64_t>(points.size() / axes);
}

void require_owners(const Boxes& boxes, std::span<const std::int32_t> owner, std::int64_t ranks) {
  if (static_cast<std::int64_t>(owner.size()) != boxes.count()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("owners of {} boxes given for {}: each box has one", owner.size(),
                            boxes.count()));
  }
  for (std::size_t box = 0; box < owner.size(); ++box) {
    if (owner[box] < 0 || owner[box] >= ranks) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("box {} was given to rank {}; 0 to {} are accepted", box, owner[box],
                              ranks - 1));
    }
  }
}

/// Of a point, the pair whose box it lies most in the middle of.
std::int32_t nearest_box(const Boxes& boxes, const Pairs& pairs, const double* x, std::int64_t p) {
  double least = 0.0;
  std::int32_t nearest = -1;
  for (const std::int32_t pair : pairs.pairs_of(p)) {
    const std::int32_t box = pairs.box[static_cast<std::size_t>(pair)];
    double distance = 0.0;
    for (int axis = 0; axis < boxes.axes(); ++axis) {
      const double along = (x[axis] - boxes.center(box)[axis]) / boxes.half_width(box)[axis];
      distance += along * along;
    }
    if (nearest < 0 || distance < least) {
      least = distance;
      nearest = box;
    }
  }
  return nearest;
}

ExchangePlan plan_of(const Boxes& boxes, const Pairs& pairs, const double* points,
                     std::span<const std::int32_t> owner, std::int64_t ranks) {
  ExchangePlan plan;
  const auto count = static_cast<std::size_t>(ranks);
  plan.sends.assign(count, std::vector<std::vector<std::int32_t>>(count));
  for (std::int64_t p = 0; p < pairs.points; ++p) {
    const std::int32_t home =
        owner[static_cast<std::size_t>(nearest_box(boxes, pairs, points + p * boxes.axes(), p))];
    plan.owner.push_back(home);
    for (const std::int32_t pair : pairs.pairs_of(p)) {
      const std::int32_t from =
          owner[static_cast<std::size_t>(pairs.box[static_cast<std::size_t>(pair)])];
      if (from != home) {
        auto& list = plan.sends[static_cast<std::size_t>(from)][static_cast<std::size_t>(home)];
        if (list.empty() || list.back() != p) {
          list.push_back(static_cast<std::int32_t>(p));
        }
      }
    }
  }
  return plan;
}

Placement measured(const Boxes& boxes, const Pairs& pairs, const double* points,
                   std::vector<std::int32_t> owner, std::int64_t ranks,
                   const PlacementCosts& costs) {
  Placement result;
  result.owner = std::move(owner);
  const auto count = static_cast<std::size_t>(ranks);
  result.boxes.assign(count, 0);
  result.pairs.assign(count, 0);
  result.sent.assign(count, 0);
  for (std::size_t box = 0; box < result.owner.size(); ++box) {
    const auto rank = static_cast<std::size_t>(result.owner[box]);
    ++result.boxes[rank];
    result.pairs[rank] += pairs.box_begin[box + 1] - pairs.box_begin[box];
  }
  const ExchangePlan plan = plan_of(boxes, pairs, points, result.owner, ranks);
  for (std::size_t rank = 0; rank < count; ++rank) {
    double seconds = costs.seconds_per_pair * static_cast<double>(result.pairs[rank]);
    for (std::size_t other = 0; other < count; ++other) {
      const std::size_t out = plan.sends[rank][other].size();
      const std::size_t in = plan.sends[other][rank].size();
      result.sent[rank] += static_cast<std::int64_t>(out);
      if (out + in > 0) {
        seconds += costs.latency +
                   costs.seconds_per_byte * costs.bytes_per_point * static_cast<double>(out + in);
      }
    }
    result.seconds = std::max(result.seconds, seconds);
  }
  return result;
}

/// Ways to divide boxes among ranks.
class Cutter {
 public:
  Cutter(const Boxes& boxes, const Pairs& pairs) : boxes_(boxes), pairs_(pairs) {}

  /// Pieces one after the other along an axis, between whole layers or between any two boxes.
  std::vector<std::int32_t> in_slices(int axis, std::int64_t ranks, bool is_straight) const {
    std::vector<std::int32_t> owner(static_cast<std::size_t>(boxes_.count()), 0);
    slice(all(), axis, 0, ranks, is_straight, owner);
    return owner;
  }

  /// In two parts along the axis on which the boxes are spread most, these likewise.
  std::vector<std::int32_t> in_halves(std::int64_t ranks, bool is_straight) const {
    std::vector<std::int32_t> owner(static_cast<std::size_t>(boxes_.count()), 0);
    halve(all(), 0, ranks, is_straight, owner);
    return owner;
  }

 private:
  using Numbers = std::vector<std::int32_t>;

  Numbers all() const {
    Numbers numbers(static_cast<std::size_t>(boxes_.count()));
    std::iota(numbers.begin(), numbers.end(), 0);
    return numbers;
  }
  double weight(std::int32_t box) const {
    const auto at = static_cast<std::size_t>(box);
    return static_cast<double>(pairs_.box_begin[at + 1] - pairs_.box_begin[at]);
  }
  double total(const Numbers& numbers) const {
    double sum = 0.0;
    for (const std::int32_t box : numbers) {
      sum += weight(box);
    }
    return sum;
  }

  void sort_along(int axis, Numbers& numbers) const {
    std::stable_sort(numbers.begin(), numbers.end(), [&](std::int32_t a, std::int32_t b) {
      return boxes_.center(a)[axis] < boxes_.center(b)[axis];
    });
  }

  /// How many of the sorted boxes come nearest to a weight.
  std::size_t place_of_cut(const Numbers& numbers, int axis, double wanted,
                           bool is_straight) const {
    double sum = 0.0;
    double nearest = wanted;
    std::size_t place = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      sum += weight(numbers[i]);
      const bool may_cut = !is_straight || i + 1 == numbers.size() ||
                           boxes_.center(numbers[i + 1])[axis] != boxes_.center(numbers[i])[axis];
      if (may_cut && std::abs(sum - wanted) < nearest) {
        nearest = std::abs(sum - wanted);
        place = i + 1;
      }
    }
    return place;
  }

  void slice(Numbers numbers, int axis, std::int64_t first_rank, std::int64_t ranks,
             bool is_straight, std::vector<std::int32_t>& owner) const {
    sort_along(axis, numbers);
    for (std::int64_t left = ranks; left > 0; --left) {
      const std::size_t cut =
          left == 1 ? numbers.size()
                    : place_of_cut(numbers, axis, total(numbers) / static_cast<double>(left),
                                   is_straight);
      for (std::size_t i = 0; i < cut; ++i) {
        owner[static_cast<std::size_t>(numbers[i])] =
            static_cast<std::int32_t>(first_rank + ranks - left);
      }
      numbers.erase(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(cut));
    }
  }

  void halve(Numbers numbers, std::int64_t first_rank, std::int64_t ranks, bool is_straight,
             std::vector<std::int32_t>& owner) const {
    if (ranks == 1 || numbers.empty()) {
      for (const std::int32_t box : numbers) {
        owner[static_cast<std::size_t>(box)] = static_cast<std::int32_t>(first_rank);
      }
      return;
    }
    const int axis = widest_axis(numbers);
    sort_along(axis, numbers);
    const std::int64_t low = ranks / 2;
    const double share = static_cast<double>(low) / static_cast<double>(ranks);
    const auto cut = static_cast<std::ptrdiff_t>(
        place_of_cut(numbers, axis, share * total(numbers), is_straight));
    halve(Numbers(numbers.begin(), numbers.begin() + cut), first_rank, low, is_straight, owner);
    halve(Numbers(numbers.begin() + cut, numbers.end()), first_rank + low, ranks - low, is_straight,
          owner);
  }

  /// In half widths.
  int widest_axis(const Numbers& numbers) const {
    int widest = 0;
    double most = -1.0;
    for (int axis = 0; axis < boxes_.axes(); ++axis) {
      double low = boxes_.center(numbers.front())[axis];
      double high = low;
      for (const std::int32_t box : numbers) {
        low = std::min(low, boxes_.center(box)[axis]);
        high = std::max(high, boxes_.center(box)[axis]);
      }
      const double spread = (high - low) / boxes_.half_width(numbers.front())[axis];
      if (spread > most) {
        most = spread;
        widest = axis;
      }
    }
    return widest;
  }

  const Boxes& boxes_;
  const Pairs& pairs_;
};

}  // namespace placing

double Placement::load() const {
  const auto total = std::accumulate(pairs.begin(), pairs.end(), std::int64_t{0});
  const auto most = *std::max_element(pairs.begin(), pairs.end());
  return static_cast<double>(most) * static_cast<double>(pairs.size()) / static_cast<double>(total);
}

ExchangePlan exchange_plan(const Boxes& boxes, std::span<const double> points,
                           std::span<const std::int32_t> owner, std::int64_t ranks) {
  placing::require_owners(boxes, owner, ranks);
  const Pairs pairs = find_pairs(boxes, points.data(), placing::count_of(boxes, points));
  return placing::plan_of(boxes, pairs, points.data(), owner, ranks);
}

Placement evaluated(const Boxes& boxes, std::span<const double> points,
                    std::vector<std::int32_t> owner, std::int64_t ranks,
                    const PlacementCosts& costs) {
  placing::require_owners(boxes, owner, ranks);
  const Pairs pairs = find_pairs(boxes, points.data(), placing::count_of(boxes, points));
  Placement result = placing::measured(boxes, pairs, points.data(), std::move(owner), ranks, costs);
  result.name = "as given";
  return result;
}

std::vector<Placement> placements(const Boxes& boxes, std::span<const double> points,
                                  std::int64_t ranks, const PlacementCosts& costs) {
  if (ranks < 1) {
    throw Error(
        ErrorKind::invalid_argument,
        fmt::format("a placement on {} ranks was asked for; 1 or more are accepted", ranks));
  }
  const Pairs pairs = find_pairs(boxes, points.data(), placing::count_of(boxes, points));
  const placing::Cutter cutter(boxes, pairs);
  std::vector<Placement> result;
  const auto consider = [&](std::string name, std::vector<std::int32_t> owner) {
    const bool is_new = std::none_of(result.begin(), result.end(),
                                     [&](const Placement& one) { return one.owner == owner; });
    if (is_new) {
      result.push_back(
          placing::measured(boxes, pairs, points.data(), std::move(owner), ranks, costs));
      result.back().name = std::move(name);
    }
  };
  for (const bool is_straight : {true, false}) {
    const char* const kind = is_straight ? "straight" : "with a jog";
    for (int axis = 0; axis < boxes.axes(); ++axis) {
      consider(fmt::format("{} along axis {}", kind, axis),
               cutter.in_slices(axis, ranks, is_straight));
    }
    consider(fmt::format("halves of halves, {}", kind), cutter.in_halves(ranks, is_straight));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Placement& a, const Placement& b) { return a.seconds < b.seconds; });
  return result;
}

std::string text_of(const std::vector<Placement>& all) {
  std::string text;
  for (const Placement& one : all) {
    text += fmt::format("{:<30} boxes {}  load {:.3f}  points sent {}  {:.3g} us a step{}\n",
                        one.name, fmt::join(one.boxes, "/"), one.load(), fmt::join(one.sent, "/"),
                        1e6 * one.seconds, &one == all.data() ? "  <- chosen" : "");
  }
  return text;
}

}  // namespace shardsolve::fbpinn
