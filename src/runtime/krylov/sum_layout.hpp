/// Dot products whose order depends on the number of rows alone, however the rows are cut: the sums
/// of runtime/fixed_dot.hpp, with its leaves, lanes and tree, for any boundaries and several
/// products at a time.
///
/// A block is 2^h consecutive leaves, a node of the tree, h the smallest with at most 2048 blocks.
/// A rank's part of one product is: sums of the blocks that are whole on it; sums of its other
/// whole leaves; x, then y, of its rows in leaves that it shares. From the parts of all ranks every
/// rank makes the same sum.
#pragma once

#include "runtime/fixed_dot.hpp"

#include <cstdint>

namespace shardsolve::krylov {

/// What a part consists of, all counted in elements; for the CPU and CUDA.
struct SumPart {
  std::int64_t begin = 0;  ///< rows of the rank
  std::int64_t end = 0;
  std::int64_t first_block = 0;
  std::int64_t blocks = 0;  ///< whole ones
  std::int64_t first_leaf = 0;
  std::int64_t leaves = 0;  ///< whole ones, those of whole blocks too
  std::int64_t leaves_in_blocks = 0;
  std::int64_t end_of_leaves = 0;  ///< row behind the last whole leaf

  SHARDSOLVE_HOST_DEVICE std::int64_t loose_leaves() const { return leaves - leaves_in_blocks; }
  SHARDSOLVE_HOST_DEVICE std::int64_t rows_in_leaves() const {
    return leaves == 0 ? 0 : end_of_leaves - first_leaf * runtime::dot_leaf;
  }
  SHARDSOLVE_HOST_DEVICE std::int64_t loose_rows() const { return end - begin - rows_in_leaves(); }
  SHARDSOLVE_HOST_DEVICE std::int64_t length() const {
    return blocks + loose_leaves() + 2 * loose_rows();
  }
  SHARDSOLVE_HOST_DEVICE bool has_leaf(std::int64_t leaf) const {
    return first_leaf <= leaf && leaf < first_leaf + leaves;
  }
  SHARDSOLVE_HOST_DEVICE bool has_block(std::int64_t block) const {
    return first_block <= block && block < first_block + blocks;
  }
  SHARDSOLVE_HOST_DEVICE std::int64_t at_block(std::int64_t block) const {
    return block - first_block;
  }
  /// Of a whole leaf in no whole block.
  SHARDSOLVE_HOST_DEVICE std::int64_t at_leaf(std::int64_t leaf, std::int64_t block_leaves) const {
    const bool behind = blocks > 0 && leaf >= first_block * block_leaves;
    return blocks + leaf - first_leaf - (behind ? leaves_in_blocks : 0);
  }
  /// x of a row in no whole leaf; y is loose_rows() behind.
  SHARDSOLVE_HOST_DEVICE std::int64_t at_row(std::int64_t row) const {
    const bool behind = leaves > 0 && row >= end_of_leaves;
    return blocks + loose_leaves() + row - begin - (behind ? rows_in_leaves() : 0);
  }
};

struct SumLayout {
  static constexpr std::int64_t max_blocks = 2048;

  std::int64_t n = 0;
  std::int64_t ranks = 1;
  const std::int64_t* boundaries = nullptr;  ///< ranks + 1, where it is used
  std::int64_t block_leaves = 1;

  /// The only block_leaves that is right for n rows.
  static std::int64_t block_leaves_of(std::int64_t n) {
    std::int64_t leaves = 1;
    while (leaves * max_blocks * runtime::dot_leaf < n) {
      leaves *= 2;
    }
    return leaves;
  }

  /// No part of n rows is longer, however they are cut.
  static std::int64_t max_length(std::int64_t n) {
    const std::int64_t leaves = block_leaves_of(n);
    const std::int64_t blocks = (n + leaves * runtime::dot_leaf - 1) / (leaves * runtime::dot_leaf);
    return blocks + 2 * leaves + 4 * runtime::dot_leaf;
  }

  /// k of 2^k. A GPU takes long to divide.
  SHARDSOLVE_HOST_DEVICE static int exponent_of(std::int64_t power) {
#if defined(__CUDA_ARCH__)
    return __ffsll(power) - 1;
#else
    return __builtin_ctzll(static_cast<unsigned long long>(power));
#endif
  }
  static constexpr int leaf_exponent = 6;
  static_assert(std::int64_t{1} << leaf_exponent == runtime::dot_leaf);

  SHARDSOLVE_HOST_DEVICE std::int64_t block_rows() const {
    return block_leaves * runtime::dot_leaf;
  }
  SHARDSOLVE_HOST_DEVICE std::int64_t blocks() const {
    return first_whole(n, leaf_exponent + exponent_of(block_leaves));
  }
  SHARDSOLVE_HOST_DEVICE std::int64_t leaves() const {
    return (n + runtime::dot_leaf - 1) / runtime::dot_leaf;
  }
  SHARDSOLVE_HOST_DEVICE SumPart part(std::int64_t rank) const {
    SumPart part;
    part.begin = boundaries[rank];
    part.end = boundaries[rank + 1];
    if (part.begin == part.end) {
      return part;
    }
    constexpr int leaf = leaf_exponent;
    const int block = leaf + exponent_of(block_leaves);
    part.first_leaf = first_whole(part.begin, leaf);
    part.leaves = whole(part, part.first_leaf, leaf);
    part.first_block = first_whole(part.begin, block);
    part.blocks = whole(part, part.first_block, block);
    part.end_of_leaves = end_of(part.first_leaf + part.leaves, runtime::dot_leaf);
    part.leaves_in_blocks =
        part.blocks == 0 ? 0
                         : first_whole(end_of(part.first_block + part.blocks, block_rows()), leaf) -
                               part.first_block * block_leaves;
    return part;
  }

 private:
  // Units of 2^exponent rows.
  SHARDSOLVE_HOST_DEVICE static std::int64_t first_whole(std::int64_t row, int exponent) {
    return (row + (std::int64_t{1} << exponent) - 1) >> exponent;
  }
  /// Those from `first` on that end on the rank; the last one of all may have fewer rows.
  SHARDSOLVE_HOST_DEVICE std::int64_t whole(const SumPart& part, std::int64_t first,
                                            int exponent) const {
    const std::int64_t past = part.end == n ? first_whole(n, exponent) : part.end >> exponent;
    return past > first ? past - first : 0;
  }
  SHARDSOLVE_HOST_DEVICE std::int64_t end_of(std::int64_t units, std::int64_t size) const {
    return units * size < n ? units * size : n;
  }
};

}  // namespace shardsolve::krylov
