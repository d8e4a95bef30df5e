#include "fbpinn/lattice.hpp"

#include "fbpinn/lists.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <ranges>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {
namespace {

/// A table of numbers that are not NaN, each once: of a lattice they are few, however many points
/// it has.
class DistinctNumbers {
 public:
  void insert_all(const std::vector<double>& numbers) {
    for (const double number : numbers) {
      insert(number);
    }
  }
  void insert(double number) {
    number += 0.0;  // -0 is 0
    if (!is_free(last_) && places_[last_].number == number) {
      return;
    }
    last_ = place_of(number);
    if (is_free(last_)) {
      places_[last_] = {number, true};
      if (++count_ > places_.size() / 2) {
        grow();
      }
    }
  }
  std::vector<double> sorted() const {
    std::vector<double> numbers;
    for (const Place& place : places_) {
      if (place.is_taken) {
        numbers.push_back(place.number);
      }
    }
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  }

 private:
  struct Place {
    double number = 0.0;
    bool is_taken = false;
  };

  bool is_free(std::size_t place) const { return !places_[place].is_taken; }
  /// Where it is, or would be.
  std::size_t place_of(double number) const {
    const std::size_t mask = places_.size() - 1;
    std::size_t place = (std::bit_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15U >> 32U) & mask;
    while (!is_free(place) && places_[place].number != number) {
      place = (place + 1) & mask;
    }
    return place;
  }
  void grow() {
    const std::vector<Place> before = std::move(places_);
    places_.assign(2 * before.size(), {});
    for (const Place& place : before) {
      if (place.is_taken) {
        last_ = place_of(place.number);
        places_[last_] = place;
      }
    }
  }

  std::vector<Place> places_ = std::vector<Place>(4096);  // a power of 2
  std::size_t count_ = 0;
  std::size_t last_ = 0;
};

/// The coordinates that occur along each axis, ascending. Those of some points by each piece, then
/// those of all.
std::vector<std::vector<double>> distinct_along(const double* points, std::int64_t count, int axes,
                                                const sparse::ForEach& each) {
  constexpr std::int64_t most_pieces = 16;
  constexpr std::int64_t fewest_points = 4096;
  const std::int64_t pieces = std::clamp<std::int64_t>(count / fewest_points, 1, most_pieces);
  std::vector<std::vector<double>> found(static_cast<std::size_t>(axes * pieces));
  each(axes * pieces, [&](std::int64_t i) {
    DistinctNumbers distinct;
    const std::int64_t piece = i % pieces;
    for (std::int64_t p = count * piece / pieces; p < count * (piece + 1) / pieces; ++p) {
      distinct.insert(points[p * axes + i / pieces]);
    }
    found[static_cast<std::size_t>(i)] = distinct.sorted();
  });
  std::vector<std::vector<double>> along(static_cast<std::size_t>(axes));
  each(axes, [&](std::int64_t axis) {
    DistinctNumbers distinct;
    for (std::int64_t i = axis * pieces; i < (axis + 1) * pieces; ++i) {
      distinct.insert_all(found[static_cast<std::size_t>(i)]);
    }
    along[static_cast<std::size_t>(axis)] = distinct.sorted();
  });
  return along;
}

/// Above which a step from one coordinate to the next is a hole; infinite if steps differ.
double longest_step(const std::vector<double>& along) {
  std::vector<double> steps(along.size() - 1);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i] = along[i + 1] - along[i];
  }
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  const double usual = *middle;
  constexpr double rounding = 1e-6;
  const auto equal = std::count_if(steps.begin(), steps.end(), [&](double step) {
    return std::abs(step - usual) <= rounding * usual;
  });
  constexpr double hole = 3.0;
  return 4 * static_cast<std::size_t>(equal) >= 3 * steps.size()
             ? hole * usual
             : std::numeric_limits<double>::infinity();
}

}  // namespace

Lattice::Lattice(const double* points, std::int64_t count, int axes, const sparse::ForEach& each)
    : points_(points), axes_(axes) {
  std::vector<std::vector<double>> along_all = distinct_along(points, count, axes, each);
  double places = 1.0;
  for (int axis = 0; axis < axes; ++axis) {
    std::vector<double>& along = along_all[static_cast<std::size_t>(axis)];
    if (along.size() > 1) {
      free_.push_back(axis);
      places *= static_cast<double>(along.size());
      longest_step_.push_back(longest_step(along));
      along_.push_back(std::move(along));
    }
  }
  // Two coordinates alone are opposite sides of the domain, with nothing of the term between.
  unsigned sides = 0;
  for (std::size_t axis = 0; axis < along_.size(); ++axis) {
    sides |= along_[axis].size() == 2 ? 1U << axis : 0U;
  }
  for (unsigned mask = 1; mask < 1U << free_.size(); ++mask) {
    if ((mask & sides) == 0) {
      cells_.push_back(mask);
    }
  }
  std::stable_sort(cells_.begin(), cells_.end(),
                   [](unsigned a, unsigned b) { return std::popcount(a) > std::popcount(b); });
  constexpr double max_places = 0x1p62;
  if (places > max_places) {
    return;
  }
  places_.resize(static_cast<std::size_t>(count));
  each_range(count, each, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t p = first; p < last; ++p) {
      places_[static_cast<std::size_t>(p)] = {key_of(at(p)), static_cast<std::int32_t>(p)};
    }
  });
  if (places <= 4.0 * static_cast<double>(count)) {
    table_.assign(static_cast<std::size_t>(places), -1);
    for (const auto& place : places_ | std::views::reverse) {
      table_[static_cast<std::size_t>(place.key)] = place.point;  // the first one remains
    }
    places_.clear();
  } else {
    std::sort(places_.begin(), places_.end());
  }
  constexpr std::int64_t looked_at = 256;
  std::int64_t seen = 0;
  std::int64_t with_neighbour = 0;
  for (std::int64_t i = 0; i < std::min(count, looked_at); ++i, ++seen) {
    const std::int64_t p = i * count / std::min(count, looked_at);
    for (std::size_t k = 0; k < free_.size(); ++k) {
      if (next(at(p), 1U << k) >= 0) {
        ++with_neighbour;
        break;
      }
    }
  }
  is_one_ = 2 * with_neighbour >= seen;
}

auto Lattice::at(std::int64_t p) const -> Place {
  Place result{};
  for (std::size_t k = 0; k < free_.size(); ++k) {
    const std::vector<double>& along = along_[k];
    result[k] = static_cast<std::int32_t>(
        std::lower_bound(along.begin(), along.end(), points_[p * axes_ + free_[k]]) -
        along.begin());
  }
  return result;
}

std::uint64_t Lattice::key_of(const Place& at) const {
  std::uint64_t key = 0;
  for (std::size_t k = 0; k < free_.size(); ++k) {
    key = key * along_[k].size() + static_cast<std::uint64_t>(at[k]);
  }
  return key;
}

std::int64_t Lattice::next(Place place, unsigned mask) const {
  for (std::size_t k = 0; k < free_.size(); ++k) {
    if ((mask >> k & 1U) == 0) {
      continue;
    }
    const auto at = static_cast<std::size_t>(place[k]++);
    const std::vector<double>& along = along_[k];
    if (at + 1 >= along.size() || along[at + 1] - along[at] > longest_step_[k]) {
      return -1;
    }
  }
  const std::uint64_t key = key_of(place);
  if (!table_.empty()) {
    return table_[static_cast<std::size_t>(key)];
  }
  const auto found = std::lower_bound(places_.begin(), places_.end(), Keyed{key, 0});
  return found != places_.end() && found->key == key ? found->point : -1;
}

std::int64_t Lattice::far_corner(std::int64_t p) const {
  const Place place = at(p);
  for (const unsigned cell : cells_) {
    bool is_whole = true;
    for (unsigned corner = 1; corner <= cell && is_whole; ++corner) {
      is_whole = (corner & ~cell) != 0 || next(place, corner) >= 0;
    }
    if (is_whole) {
      return next(place, cell);
    }
  }
  return -1;
}

}  // namespace shardsolve::fbpinn
