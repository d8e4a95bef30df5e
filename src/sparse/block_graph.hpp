/// Symmetric matrices of dense blocks: which blocks there are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shardsolve::sparse {

/// Which blocks of a symmetric block matrix are not zero, beside those on its diagonal.
struct BlockGraph {
  std::vector<std::int64_t> sizes;            ///< columns of each block; 0 is fine
  std::vector<std::int64_t> neighbour_begin;  ///< of each block; blocks + 1 numbers
  /// The others that it has a block with, ascending; j is a neighbour of i if i is one of j.
  std::vector<std::int32_t> neighbours;
  /// Where the blocks lie: `axes` coordinates each, which cuts are made along. Without them (axes =
  /// 0) cuts follow distances in the graph.
  int axes = 0;
  std::vector<double> coordinates;

  std::int64_t count() const { return static_cast<std::int64_t>(sizes.size()); }
  std::int64_t size(std::int64_t block) const { return sizes[static_cast<std::size_t>(block)]; }
  std::span<const std::int32_t> neighbours_of(std::int64_t block) const {
    const auto begin = static_cast<std::size_t>(neighbour_begin[static_cast<std::size_t>(block)]);
    const auto end = static_cast<std::size_t>(neighbour_begin[static_cast<std::size_t>(block) + 1]);
    return std::span(neighbours).subspan(begin, end - begin);
  }
  /// Columns of all blocks.
  std::int64_t columns() const;
  /// The first column of each block and the number of all: blocks + 1 numbers.
  std::vector<std::int64_t> offsets() const;
  /// Throws Error(invalid_argument) if sizes are negative, arrays do not fit each other, or a
  /// neighbour is out of range, not ascending, the block itself, or not one in return.
  void require_valid() const;
};

}  // namespace shardsolve::sparse
