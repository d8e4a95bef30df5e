/// Sizes and shared memory of the blocks that factor a tile; see factor_tile.cu.
#pragma once

#include "runtime/cuda/kernels/scalar.cuh"

namespace shardsolve::runtime::cuda {

/// A block has side x groups threads. Thread (row, group) keeps three rows of `own` elements in
/// registers, columns group, group + groups, ... of each.
template <class E>
struct FactorShape {
  static constexpr int side = sizeof(E) == 16 ? 32 : 64;
  static constexpr int groups = 4;
  static constexpr int own = side / groups;
  static constexpr int threads = side * groups;
};

/// Rows are eliminated in threes: one of the diagonal square, one each of two panels below it.
inline constexpr int row_kinds = 3;

template <class E>
struct FactorShared {
  static constexpr int side = FactorShape<E>::side;
  /// Four more than there are rows: threads of a warp that read four columns then meet different
  /// memory banks, and columns stay aligned for loads of 16 bytes.
  static constexpr int panel_stride = side + 4;

  /// Finished rows of the two panels, [panel][column][row].
  alignas(16) E panels[2][side][panel_stride];
  /// One column of all rows before it is scaled, for this step and for the next.
  alignas(16) E column[2][row_kinds][side];
  RealPart<E> pivot[side];
  RealPart<E> inverse_root[side];
};

/// The rows in the registers of one thread.
template <class E>
using ThreadRows = E[row_kinds][FactorShape<E>::own];

}  // namespace shardsolve::runtime::cuda
