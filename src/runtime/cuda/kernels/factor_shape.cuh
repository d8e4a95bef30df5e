/// Sizes and shared memory of the blocks that factor a tile; see factor_tile.cu.
#pragma once

#include "runtime/cuda/kernels/scalar.cuh"

namespace shardsolve::runtime::cuda {

/// A square is eliminated a strip of columns at a time, by side x groups threads. Thread (row,
/// group) loads and stores columns group, group + groups, ... of a row, `own` of them.
template <class E>
struct FactorShape {
  static constexpr int side = sizeof(E) == 16 ? 32 : 64;
  static constexpr int groups = 4;
  static constexpr int own = side / groups;
  static constexpr int threads = side * groups;
  static constexpr int strip = side / 4;
};

/// Rows are eliminated in threes: one of the diagonal square, one each of two panels below it.
inline constexpr int row_kinds = 3;

inline constexpr int lanes_a_warp = 32;

/// A square, [column][row]. Four more than there are rows: threads of a warp that read four columns
/// then meet different memory banks, and columns stay aligned for loads of 16 bytes.
template <class E>
using Panel = E[FactorShape<E>::side][FactorShape<E>::side + 4];

template <class E>
struct FactorShared {
  alignas(16) Panel<E> panels[row_kinds];
  RealPart<E> pivot[FactorShape<E>::side];
  RealPart<E> inverse_root[FactorShape<E>::side];
};

/// Elements of a thread's rows.
template <class E>
using ThreadRows = E[row_kinds][FactorShape<E>::own];

/// So many elements side by side, in loads of 16 bytes.
template <int count, class E>
__device__ void load_run(E (&to)[count], const E* from) {
  constexpr int run = 16 / static_cast<int>(sizeof(E));
  static_assert(count % run == 0);
  struct alignas(16) Run {
    E elements[run];
  };
#pragma unroll
  for (int first = 0; first < count; first += run) {
    const Run found = *reinterpret_cast<const Run*>(from + first);
#pragma unroll
    for (int e = 0; e < run; ++e) {
      to[first + e] = found.elements[e];
    }
  }
}

}  // namespace shardsolve::runtime::cuda
