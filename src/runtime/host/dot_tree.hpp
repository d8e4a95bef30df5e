/// The sum of one leaf, and the tree over leaves, of runtime/fixed_dot.hpp on the CPU.
///
/// All is inlined, into functions that may use instructions which the rest of the library cannot
/// count on: a file that includes this is compiled by itself.
#pragma once

#include "runtime/fixed_dot.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

#define SHARDSOLVE_INLINE inline __attribute__((always_inline))

namespace shardsolve::runtime::host::dot {

/// One leaf of `count` rows, at most 64.
template <class Real, int width>
SHARDSOLVE_INLINE DotSum<Real, width> dot_leaf_sum(const Real* x, const Real* y,
                                                   std::int64_t count) {
  std::array<DotSum<Real, width>, dot_lanes> lane{};
  if (count == dot_leaf) {
    for (std::int64_t first = 0; first < dot_leaf; first += dot_lanes) {
      for (std::size_t j = 0; j < dot_lanes; ++j) {
        const std::int64_t at = width * (first + static_cast<std::int64_t>(j));
        lane[j].multiply_add(x + at, y + at);
      }
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      lane[static_cast<std::size_t>(i % dot_lanes)].multiply_add(x + width * i, y + width * i);
    }
  }
  for (std::size_t distance = dot_lanes / 2; distance > 0; distance /= 2) {
    for (std::size_t j = 0; j < distance; ++j) {
      lane[j].add(lane[j + distance]);
    }
  }
  return lane[0];
}

/// The binary tree over leaves that come one after the other.
template <class Real, int width>
class DotTree {
 public:
  SHARDSOLVE_INLINE void push(DotSum<Real, width> sum) { push_subtree(sum, 0); }
  /// The sum of 2^exponent leaves; before it came a multiple of as many.
  SHARDSOLVE_INLINE void push_subtree(DotSum<Real, width> sum, int exponent) {
    for (std::uint64_t pairs = count_ >> exponent; (pairs & 1U) != 0; pairs >>= 1U) {
      DotSum<Real, width> left = waiting_[--depth_];
      left.add(sum);
      sum = left;
    }
    count_ += std::uint64_t{1} << exponent;
    waiting_[depth_++] = sum;
  }
  SHARDSOLVE_INLINE void clear() {
    depth_ = 0;
    count_ = 0;
  }
  SHARDSOLVE_INLINE DotSum<Real, width> total() const {
    DotSum<Real, width> sum{};
    for (std::size_t at = depth_; at > 0; --at) {
      DotSum<Real, width> left = waiting_[at - 1];
      left.add(sum);
      sum = left;
    }
    return sum;
  }

 private:
  std::array<DotSum<Real, width>, 64> waiting_;
  std::size_t depth_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace shardsolve::runtime::host::dot
