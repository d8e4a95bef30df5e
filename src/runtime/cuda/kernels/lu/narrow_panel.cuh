/// What the kernels for narrow panels of LU have in common: how threads have a panel's entries, and
/// which row is the best one.
#pragma once

#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda::narrow {

inline constexpr int threads = 512;
inline constexpr int lanes = 32;
inline constexpr int warps = threads / lanes;

/// Rows and columns of a thread, and groups of warps that have rows of their own.
template <int rows_a_thread, int columns_a_thread, int group_count>
struct Shape {
  static constexpr int rows = rows_a_thread;
  static constexpr int columns = columns_a_thread;
  static constexpr int groups = group_count;
  static constexpr int across = warps / groups;  ///< warps that share the columns
  static constexpr int width = across * columns;
  static constexpr int height = lanes * rows * groups;
};

/// A place of a thread in its block.
template <class S>
struct Place {
  int warp = static_cast<int>(threadIdx.x) / lanes;
  int lane = static_cast<int>(threadIdx.x) % lanes;
  int column = warp % S::across;  ///< the first of its columns
  int group = warp / S::across;

  /// Of the block's rows.
  __device__ int row_of(int r) const { return (group * S::rows + r) * lanes + lane; }
  __device__ int column_of(int c) const { return c * S::across + column; }
};

/// What a thread has in registers.
template <class E, class S>
struct Entries {
  E entry[S::rows][S::columns];
  int place[S::rows];  ///< where the row is to stand; -1 where there is no row

  /// Of the block whose rows begin at `first`.
  __device__ void load(const DeviceMatrix<E>& a, std::int64_t first, const Place<S>& own) {
#pragma unroll
    for (int r = 0; r < S::rows; ++r) {
      const std::int64_t row = first + own.row_of(r);
      place[r] = row < a.rows ? static_cast<int>(row) : -1;
#pragma unroll
      for (int c = 0; c < S::columns; ++c) {
        entry[r][c] =
            place[r] >= 0 && own.column_of(c) < a.columns ? a(row, own.column_of(c)) : E{};
      }
    }
  }
  __device__ void store(const DeviceMatrix<E>& a, const Place<S>& own) const {
#pragma unroll
    for (int r = 0; r < S::rows; ++r) {
#pragma unroll
      for (int c = 0; c < S::columns; ++c) {
        if (place[r] >= 0 && own.column_of(c) < a.columns) {
          a(place[r], own.column_of(c)) = entry[r][c];
        }
      }
    }
  }
  __device__ void swap(int one, int other) {
#pragma unroll
    for (int r = 0; r < S::rows; ++r) {
      if (place[r] == other) {
        place[r] = one;
      } else if (place[r] == one) {
        place[r] = other;
      }
    }
  }
  /// work(c, entry) for those of the row that stands at a place, by the threads that have them.
  template <class Work>
  __device__ void for_row(std::uint32_t where, const Work& work) const {
#pragma unroll
    for (int r = 0; r < S::rows; ++r) {
      if (place[r] >= 0 && static_cast<std::uint32_t>(place[r]) == where) {
#pragma unroll
        for (int c = 0; c < S::columns; ++c) {
          work(c, entry[r][c]);
        }
      }
    }
  }
};

/// The size of an entry, |re| + |im|, as bits that are ordered as sizes are, and the place of its
/// row. The larger one wins, of equals the one in the first row.
struct Candidate {
  std::uint64_t size;
  std::uint32_t place;
};

inline __device__ Candidate no_row() { return {0, ~std::uint32_t{0}}; }

inline __device__ std::uint64_t bits_of(float size) { return __float_as_uint(size); }
inline __device__ std::uint64_t bits_of(double size) {
  return (std::uint64_t{static_cast<std::uint32_t>(__double2hiint(size))} << 32U) |
         static_cast<std::uint32_t>(__double2loint(size));
}

/// What is no number wins against nobody but what is no row.
template <class E>
__device__ Candidate candidate(E entry, int place) {
  const RealPart<E> re = real(entry);
  const RealPart<E> im = imaginary(entry);
  const RealPart<E> size = (re < 0 ? -re : re) + (im < 0 ? -im : im);
  return {size >= 0 ? bits_of(size + 0) + 2 : 1, static_cast<std::uint32_t>(place)};
}

inline __device__ bool is_better(const Candidate& one, const Candidate& other) {
  return one.size > other.size || (one.size == other.size && one.place < other.place);
}

/// Of all lanes, in each of them.
inline __device__ std::uint32_t largest_of_warp(std::uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(0xffffffffU, value);
#else
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    const std::uint32_t other = __shfl_xor_sync(0xffffffffU, value, distance);
    value = other > value ? other : value;
  }
  return value;
#endif
}
inline __device__ Candidate best_of_warp(const Candidate& mine) {
  const auto high = static_cast<std::uint32_t>(mine.size >> 32U);
  const auto low = static_cast<std::uint32_t>(mine.size);
  const std::uint32_t best_high = largest_of_warp(high);
  const std::uint32_t best_low = largest_of_warp(high == best_high ? low : 0);
  const bool is_best = high == best_high && low == best_low;
  const std::uint32_t place = ~largest_of_warp(is_best ? ~mine.place : 0);
  return {(std::uint64_t{best_high} << 32U) | best_low, place};
}

/// A candidate as blocks tell it: all bits set is not yet told.
struct Offer {
  std::uint64_t size;
  std::uint64_t place;
};

/// x / u for |x| <= |u|, u not 0: by the reciprocal, and what that leaves; of complex numbers by
/// that of one near 1.
template <class E>
struct Divisor {
  E number;
  RealPart<E> factor = 1;

  __device__ explicit Divisor(E u) : number(u) {
    if constexpr (parts<E> == 2) {
      factor = to_unit_size(size_of(u));
      const E near_one = scaled(u, factor);
      number = scaled(conjugate(near_one), 1 / square(near_one));
    } else {
      factor = 1 / u;
    }
  }
  __device__ E divides(E x) const {
    if constexpr (parts<E> == 2) {
      return product_of(scaled(x, factor), number);
    } else {
      if (!isfinite(factor)) {  // numbers near the least one have no reciprocal
        return x / number;
      }
      const E quotient = x * factor;
      return std::fma(std::fma(-quotient, number, x), factor, quotient);
    }
  }
};

/// Where the panel stands in a wider one, and what is said of it; see
/// LuDeviceKernels::narrow_panel.
template <class E>
struct Panel {
  DeviceMatrix<E> a;
  std::int64_t first;
  std::int64_t before;
  std::int64_t* places;
  std::int64_t* info;
};

/// By one thread, column by column: places of pivots, and the first one that is no number.
template <class E>
struct Report {
  std::int64_t first_odd = 0;

  __device__ void add(const Panel<E>& panel, int j, int pivot_place, E pivot) {
    panel.places[j] = panel.first + pivot_place;
    if (first_odd == 0 && !(isfinite(real(pivot)) && isfinite(imaginary(pivot)))) {
      first_odd = -(panel.before + j + 1);
    }
  }
  __device__ void finish(const Panel<E>& panel) const {
    if (panel.before == 0 || *panel.info == 0) {
      *panel.info = first_odd;
    }
  }
};

/// Panels by one cluster, from sm_90 on. How many columns it takes; 0 if the current device runs no
/// cluster for so many rows.
template <class E>
std::int64_t cluster_columns(std::int64_t rows);
/// Enqueues the panel; false if no cluster takes so many rows and columns.
template <class E>
bool factor_in_cluster(cudaStream_t stream, const Panel<E>& panel);

}  // namespace shardsolve::runtime::cuda::narrow
