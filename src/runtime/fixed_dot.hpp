/// <x, y> = sum of conj(x_i) y_i with rounding that depends on nothing but the numbers: the same
/// bits on the CPU and on GPUs, on however many devices the rows lie.
///
/// The order. Rows 64 l to 64 l + 63 are leaf l. Row i of a leaf belongs to its lane i mod 8; a
/// lane starts at +0 and takes its rows in turn, s = fma(x, y, s), of complex numbers
///   re = fma(im x, im y, fma(re x, re y, re)),   im = fma(-im x, re y, fma(re x, im y, im)).
/// Lane j += lane j + 4, then j + 2, then j + 1: lane 0 is the leaf's sum. Leaves are added in
/// pairs, then pairs of pairs, up a binary tree; where one has no partner it goes up as it is. What
/// is missing at the end may be taken as zeros, as no sum here is ever -0.
///
/// Several devices. Each has `rows` consecutive rows, the last ones fewer, and writes its parts:
/// the sums of its whole leaves, and x and y of at most two leaves that it shares with a neighbour.
/// From the parts of all, which somebody gathers, every device makes the same sum.
///
/// For the CPU and CUDA; C++ of neither's own.
#pragma once

#include "runtime/host_and_device.hpp"

#include <cstdint>

namespace shardsolve::runtime {

constexpr std::int64_t dot_leaf = 64;
constexpr int dot_lanes = 8;
constexpr std::int64_t dot_subtree = 32;  ///< leaves that one block of a GPU adds up

SHARDSOLVE_HOST_DEVICE inline float fused_multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}
SHARDSOLVE_HOST_DEVICE inline double fused_multiply_add(double a, double b, double c) {
#if defined(__CUDA_ARCH__)
  return __fma_rn(a, b, c);
#else
  return __builtin_fma(a, b, c);
#endif
}

/// A sum under way, from {} on; two reals if `width` is 2, for complex numbers.
template <class Real, int width>
struct DotSum {
  Real part[width];

  SHARDSOLVE_HOST_DEVICE void multiply_add(const Real* x, const Real* y) {
    part[0] = fused_multiply_add(x[0], y[0], part[0]);
    if constexpr (width == 2) {
      part[0] = fused_multiply_add(x[1], y[1], part[0]);
      part[1] = fused_multiply_add(x[0], y[1], part[1]);
      part[1] = fused_multiply_add(-x[1], y[0], part[1]);
    }
  }
  SHARDSOLVE_HOST_DEVICE void add(const DotSum& other) {
    for (int at = 0; at < width; ++at) {
      part[at] += other.part[at];
    }
  }
};

/// How n rows lie on devices with `rows` each, and what each one's parts are, in elements: sums of
/// whole leaves; x and y of the leaf that it begins within; those of the leaf that it ends within.
struct DotLayout {
  std::int64_t n = 0;
  std::int64_t rows = 0;  ///< at least 1

  SHARDSOLVE_HOST_DEVICE std::int64_t leaves() const { return (n + dot_leaf - 1) / dot_leaf; }
  SHARDSOLVE_HOST_DEVICE std::int64_t begin(std::int64_t rank) const {
    return rank * rows < n ? rank * rows : n;
  }
  SHARDSOLVE_HOST_DEVICE std::int64_t end(std::int64_t rank) const { return begin(rank + 1); }
  SHARDSOLVE_HOST_DEVICE std::int64_t owner(std::int64_t row) const { return row / rows; }
  /// Past the last row of a leaf.
  SHARDSOLVE_HOST_DEVICE std::int64_t end_of_leaf(std::int64_t leaf) const {
    return (leaf + 1) * dot_leaf < n ? (leaf + 1) * dot_leaf : n;
  }
  SHARDSOLVE_HOST_DEVICE std::int64_t first_whole_leaf(std::int64_t rank) const {
    return (begin(rank) + dot_leaf - 1) / dot_leaf;
  }

  SHARDSOLVE_HOST_DEVICE std::int64_t sums() const { return rows / dot_leaf + 1; }
  SHARDSOLVE_HOST_DEVICE std::int64_t length() const { return sums() + 4 * dot_leaf; }
  /// Offset of the entries of x of the leaf that is shared with the neighbour before, or with the
  /// one after if `at_end`; those of y follow dot_leaf later.
  SHARDSOLVE_HOST_DEVICE std::int64_t window(bool at_end) const {
    return sums() + (at_end ? 2 * dot_leaf : 0);
  }
  /// Whether a row of a device is in a leaf that it shares; all of a leaf's are in one window.
  SHARDSOLVE_HOST_DEVICE bool begins_within(std::int64_t rank, std::int64_t leaf) const {
    return begin(rank) % dot_leaf != 0 && begin(rank) / dot_leaf == leaf;
  }
  SHARDSOLVE_HOST_DEVICE bool is_whole(std::int64_t rank, std::int64_t leaf) const {
    return begin(rank) <= leaf * dot_leaf && end_of_leaf(leaf) <= end(rank);
  }
};

enum class DotStep : std::uint8_t {
  all,     ///< x and y, all of them here -> the sum
  parts,   ///< x and y of one device, and its rank -> its parts
  finish,  ///< the parts of all devices, one after the other -> the sum
};

/// One call for `batch` pairs of vectors, all operands and results one after the other. Travels
/// between libraries as it is.
struct DotCall {
  DotStep step{};
  bool is_double = false;
  bool is_complex = false;
  std::int64_t batch = 0;
  DotLayout layout;                    ///< of one device with all rows, if step is all
  std::int64_t ranks = 1;              ///< finish: how many parts
  const std::int32_t* rank = nullptr;  ///< parts: one for each of the batch, in the device's memory
  const void* x = nullptr;             ///< batch x rows, or batch x ranks x length of parts
  const void* y = nullptr;             ///< batch x rows
  void* result = nullptr;              ///< batch, or batch x length of parts
  void* work = nullptr;                ///< GPUs, but for parts: batch x subtrees()

  std::int64_t subtrees() const { return (layout.leaves() + dot_subtree - 1) / dot_subtree; }
};

}  // namespace shardsolve::runtime
