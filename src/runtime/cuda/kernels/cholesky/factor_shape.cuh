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

/// The 99 KB that a block may have on every GPU from sm_80 on have room for all of FactorShared.
/// The 96 KB of sm_70 have room for its panels.
#if __CUDA_ARCH__ >= 800
inline constexpr bool pivots_lie_apart = true;
inline constexpr bool multiplies_doubles_on_tensor_cores = true;
#else
inline constexpr bool pivots_lie_apart = false;
inline constexpr bool multiplies_doubles_on_tensor_cores = false;
#endif

template <class E>
struct FactorShared {
  using Real = RealPart<E>;

  Panel<E> panels[row_kinds];
  Real pivots[FactorShape<E>::side];
  Real inverse_roots[FactorShape<E>::side];

  /// What a column's diagonal was the root of, and one by that root; apart, or where the diagonal
  /// square of the column's strip has nothing of meaning, above its diagonal.
  __device__ Real pivot(int column) const {
    return pivots_lie_apart ? pivots[column] : real(panels[0](spare_row(column), spare(column, 0)));
  }
  __device__ Real inverse_root(int column) const {
    return pivots_lie_apart ? inverse_roots[column]
                            : real(panels[0](spare_row(column), spare(column, 1)));
  }
  __device__ void keep(int column, Real pivot, Real inverse_root) {
    if constexpr (pivots_lie_apart) {
      pivots[column] = pivot;
      inverse_roots[column] = inverse_root;
    } else {
      panels[0](spare_row(column), spare(column, 0)) = from_real<E>(pivot);
      panels[0](spare_row(column), spare(column, 1)) = from_real<E>(inverse_root);
    }
  }

 private:
  // Of a strip, the rows of the first half and the last four columns: two for each kind of number.
  static constexpr int strip = FactorShape<E>::strip;
  static_assert(strip / 2 <= strip - 4);
  static __device__ int first(int column) { return column / strip * strip; }
  static __device__ int spare_row(int column) { return first(column) + column % (strip / 2); }
  static __device__ int spare(int column, int kind) {
    return first(column) + strip - 1 - 2 * kind - column % strip / (strip / 2);
  }
};

/// Elements of a thread's rows.
template <class E>
using ThreadRows = E[row_kinds][FactorShape<E>::own];

}  // namespace shardsolve::runtime::cuda
