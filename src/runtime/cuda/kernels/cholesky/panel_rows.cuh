/// What the solves of a panel have in common: where its rows are, and how floats are scaled.
#pragma once

#include "runtime/cuda/kernels/cholesky/panel_tile.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <cuda_pipeline_primitives.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda {

constexpr int lanes = 32;
constexpr int tile_rows = 16;
constexpr int tile_columns = 8;
constexpr int depth = 16;  // of one product
constexpr std::size_t bytes_a_copy = 16;

/// Whether factors are split.
template <class E>
inline constexpr bool splits = std::is_same_v<RealPart<E>, float>;

/// x L^H = a; x replaces a, and x^H is packed.
template <class E>
struct PanelSystem {
  DeviceMatrix<const E> adjoint;  // L^H
  DeviceMatrix<const E> inverse;  // W^H in its diagonal blocks
  DeviceMatrix<E> a21;
  DeviceMatrix<E> packed;
};

inline __device__ int lane() { return static_cast<int>(threadIdx.x) % lanes; }
/// Of this thread's columns in a tile the first.
inline __device__ int place() { return lane() % 4 * 2; }

/// Until what this thread has copied is there, but for the last `later` groups of copies.
template <int later>
__device__ void await_copies() {
  __pipeline_wait_prior(later);
  asm volatile("" ::: "memory");  // the line above does not say that memory changes
}

/// Which of the two rows of a tile that a thread has.
template <class E>
using Row = RealPart<E> (Tile16x8<RealPart<E>>::*)[2];

/// 16 rows of a panel, by a warp.
template <class E>
class PanelRows {
 public:
  using Numbers = Tile16x8<RealPart<E>>;

  __device__ PanelRows(const PanelSystem<E>& panel, std::int64_t first_row)
      : a21_(panel.a21), packed_(panel.packed), row_(first_row + lane() / 4) {}

  /// So many tiles side by side from that column on.
  template <int tiles>
  __device__ void load(Tile<E>* to, std::int64_t begin) const {
    const E* const low = a_low_ + begin * stride_;
    const E* const high = a_high_ + begin * stride_;
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int column = (n * tile_columns + c) * stride_;
        set(to[n], &Numbers::low, c, low[column]);
        set(to[n], &Numbers::high, c, high[column]);
      }
    }
  }

  /// Likewise, and their adjoints to `packed`.
  template <int tiles>
  __device__ void store(const Tile<E>* x, std::int64_t begin) const {
    if (has_low_) {
      store<tiles>(x, &Numbers::low, begin, a_low_, packed_low_);
    }
    if (has_high_) {
      store<tiles>(x, &Numbers::high, begin, a_high_, packed_high_);
    }
  }

  /// What this thread has stored there, as it is packed.
  __device__ Two<E> packed(Row<E> row, std::int64_t column) const {
    return Two<E>::load((row == &Numbers::low ? packed_low_ : packed_high_) + column);
  }

 private:
  template <int tiles>
  __device__ void store(const Tile<E>* x, Row<E> row, std::int64_t begin, E* a, E* packed) const {
    a += begin * stride_;
    packed += begin;
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
      const E two[] = {get(x[n], row, 0), get(x[n], row, 1)};
      a[n * tile_columns * stride_] = two[0];
      a[(n * tile_columns + 1) * stride_] = two[1];
      Two<E>::store(packed + n * tile_columns, conjugate(two[0]), conjugate(two[1]));
    }
  }

  static __device__ void set(Tile<E>& tile, Row<E> row, int column, E value) {
    (tile.part[0].*row)[column] = real(value);
    if constexpr (parts<E> == 2) {
      (tile.part[1].*row)[column] = value.im;
    }
  }

  static __device__ E get(const Tile<E>& tile, Row<E> row, int column) {
    if constexpr (parts<E> == 2) {
      return {(tile.part[0].*row)[column], (tile.part[1].*row)[column]};
    } else {
      return (tile.part[0].*row)[column];
    }
  }

  const DeviceMatrix<E>& a21_;
  const DeviceMatrix<E>& packed_;
  /// Of a21; as an int it takes registers of which there are none to spare.
  int stride_ = static_cast<int>(a21_.stride);
  // The two rows of this thread. Where there is none it computes with the last one, whatever that
  // holds, and stores nothing.
  std::int64_t row_;
  bool has_low_ = row_ < a21_.rows;
  bool has_high_ = row_ + tile_rows / 2 < a21_.rows;
  std::int64_t low_ = has_low_ ? row_ : a21_.rows - 1;
  std::int64_t high_ = has_high_ ? row_ + tile_rows / 2 : a21_.rows - 1;
  E* a_low_ = &a21_(low_, place());
  E* a_high_ = &a21_(high_, place());
  E* packed_low_ = &packed_(place(), low_);
  E* packed_high_ = &packed_(place(), high_);
};

/// Of the 16 rows of a warp, to multiply floats by before and after they are split.
struct RowScales {
  RowScale low;
  RowScale high;

  /// Of rows of which these are some columns, one tile after another.
  template <class E, int tiles>
  static __device__ RowScales of(const Tile<E> (&rows)[tiles]) {
    using Numbers = Tile16x8<RealPart<E>>;
    return {of(rows, &Numbers::low), of(rows, &Numbers::high)};
  }

 private:
  template <class E, int tiles>
  static __device__ RowScale of(const Tile<E> (&rows)[tiles], Row<E> row) {
    float largest = 0.0F;
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
#pragma unroll
      for (int p = 0; p < parts<E>; ++p) {
        const auto& two = rows[n].part[p].*row;
        largest = fmaxf(largest, fmaxf(fabsf(two[0]), fabsf(two[1])));
      }
    }
    // Four lanes share a row.
#pragma unroll
    for (int distance = 1; distance < 4; distance *= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, distance));
    }
    return RowScale::of(largest);
  }
};

template <class E>
__device__ void multiply(Tile<E>& tile, float low, float high) {
#pragma unroll
  for (int p = 0; p < parts<E>; ++p) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      tile.part[p].low[c] *= low;
      tile.part[p].high[c] *= high;
    }
  }
}

}  // namespace shardsolve::runtime::cuda
