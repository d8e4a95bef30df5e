/// Which rank keeps which reflectors of a chase.
#pragma once

#include "runtime/chase.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::dense::eigh {

/// The sweeps of a chase in groups of `size`, at least 1, of which the ranks keep one in turn:
/// about n^2 / (2 ranks) numbers each.
struct SweepGroups {
  runtime::Chase chase;
  std::int64_t size = 1;
  std::int64_t ranks = 1;

  std::int64_t count() const { return (chase.sweeps() + size - 1) / size; }
  runtime::SweepGroup group(std::int64_t index) const {
    const std::int64_t first = index * size;
    return {first, std::min(size, chase.sweeps() - first)};
  }
  std::int64_t owner(std::int64_t index) const { return index % ranks; }
  std::int64_t columns(std::int64_t index) const { return group(index).columns(chase); }
  /// Of the largest group.
  std::int64_t max_columns() const { return count() == 0 ? 0 : columns(0); }
  /// Where a group begins among the columns that its owner keeps.
  std::int64_t columns_before(std::int64_t index) const {
    std::int64_t sum = 0;
    for (std::int64_t earlier = index - ranks; earlier >= 0; earlier -= ranks) {
      sum += columns(earlier);
    }
    return sum;
  }
  /// All that a rank keeps.
  std::int64_t columns_of(std::int64_t rank) const {
    std::int64_t sum = 0;
    for (std::int64_t index = rank; index < count(); index += ranks) {
      sum += columns(index);
    }
    return sum;
  }
};

}  // namespace shardsolve::dense::eigh
