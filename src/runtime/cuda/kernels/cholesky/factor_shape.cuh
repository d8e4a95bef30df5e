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

/// A square of numbers. Rows lie in fours that are exchanged, differently in four columns side by
/// side: threads of a warp that read four columns meet different memory banks.
template <class E>
class Panel {
 public:
  __device__ E& operator()(int row, int column) { return numbers_[column][place(row, column)]; }
  const __device__ E& operator()(int row, int column) const {
    return numbers_[column][place(row, column)];
  }
  /// Elements of a column from row `first` on, a multiple of what one load of 16 bytes brings.
  template <int count>
  __device__ void read(E (&to)[count], int first, int column) const {
    constexpr int run = 16 / static_cast<int>(sizeof(E));
    static_assert(count % run == 0 && run <= together);
    struct alignas(16) Run {
      E elements[run];
    };
#pragma unroll
    for (int at = 0; at < count; at += run) {
      const Run found = *reinterpret_cast<const Run*>(&(*this)(first + at, column));
#pragma unroll
      for (int e = 0; e < run; ++e) {
        to[at + e] = found.elements[e];
      }
    }
  }

 private:
  static constexpr int together = 4;
  static __device__ int place(int row, int column) { return row ^ column % 4 * together; }

  alignas(16) E numbers_[FactorShape<E>::side][FactorShape<E>::side];
};

/// Fits into the 99 KB that a block may have on every GPU from sm_80 on.
template <class E>
struct FactorShared {
  Panel<E> panels[row_kinds];
  RealPart<E> pivot[FactorShape<E>::side];
  RealPart<E> inverse_root[FactorShape<E>::side];
};

/// Elements of a thread's rows.
template <class E>
using ThreadRows = E[row_kinds][FactorShape<E>::own];

}  // namespace shardsolve::runtime::cuda
