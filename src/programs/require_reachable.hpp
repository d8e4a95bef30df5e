/// What a rank program asks of the caller's matrices before it reads them.
#pragma once

#include "mesh/rank.hpp"
#include "mesh/require_part.hpp"
#include "programs/gather.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/sharded.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <vector>

namespace shardsolve::programs {

inline bool has_empty_segment(const SlabLayout& layout) {
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    if (layout.width(rank) == 0) {
      return true;
    }
  }
  return false;
}

/// Throws Error(invalid_argument) unless this rank's part is in this process and its device
/// computes on its memory.
template <Scalar T>
void require_reachable(const mesh::Rank& rank, const ShardedMatrix<T>& a, const char* what) {
  mesh::require_part(rank, a, what);
  if (const MatrixView<T> slab = a.slab(rank.index()); !slab.empty()) {
    rank.require_device_memory(slab.data(), a.memory(), what);
  }
}

/// Likewise for right-hand sides, and throws Error(invalid_argument) unless all ranks have as many.
/// The block of a process without rows is empty whatever k is: the ranks compare k.
template <Scalar T>
void require_reachable(mesh::Rank& rank, const RightHandSides<T>& b) {
  constexpr const char* what = "the right-hand sides";
  mesh::require_part(rank, b, what);
  if (const MatrixView<T> block = b.block(rank.index()); !block.empty()) {
    rank.require_device_memory(block.data(), b.memory(), what);
  }
  if (!has_empty_segment(b.layout())) {
    return;
  }
  for (const auto& columns : gather_from_all(rank, std::vector{b.columns()})) {
    if (columns.front() != b.columns()) {
      throw Error(ErrorKind::invalid_argument,
                  fmt::format("{} right-hand sides given in one process and {} in another: a "
                              "process without rows of them gives a block of 0 x k",
                              columns.front(), b.columns()));
    }
  }
}

}  // namespace shardsolve::programs
