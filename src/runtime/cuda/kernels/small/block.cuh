/// What a block that has a small system needs, whatever the factorisation.
#pragma once

#include "runtime/cuda/kernels/hermitian/wide_sum.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"
#include "runtime/cuda/small_systems.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace shardsolve::runtime::cuda::small {

constexpr int lanes = 32;
constexpr int most_threads = 256;
constexpr int most_warps = most_threads / lanes;
constexpr int most_rows = static_cast<int>(most_small_rows);

template <class E>
constexpr double roundoff = std::numeric_limits<RealPart<E>>::epsilon() / 2.0;
/// A pivot that is not larger may have lost digits.
template <class E>
constexpr RealPart<E> least_pivot =
    std::numeric_limits<RealPart<E>>::min() / std::numeric_limits<RealPart<E>>::epsilon();
/// Backward errors that are refined, in units of rounding: dense/*/certified_solve.
constexpr double refined_from = 4;
constexpr double refined_from_by_components = 10;

/// Of what does not wait for each other in a loop: it would wait for memory, one after the other.
constexpr int side_by_side = 4;

inline __device__ int own_thread() { return static_cast<int>(threadIdx.x); }
inline __device__ int own_lane() { return own_thread() % lanes; }
inline __device__ int own_warp() { return own_thread() / lanes; }
inline __device__ int thread_count() { return static_cast<int>(blockDim.x); }
inline __device__ int warp_count() { return thread_count() / lanes; }

/// A matrix in shared memory, by rows, which begin in different banks.
template <class E>
struct Tile {
  E* data;
  int n;

  static constexpr int stride(int n) { return n | 1; }
  static constexpr std::size_t bytes(std::int64_t n) {
    return sizeof(E) * static_cast<std::size_t>(n * stride(static_cast<int>(n)));
  }
  __device__ E& operator()(int row, int column) const { return data[row * (n | 1) + column]; }
  __device__ E* end() const { return data + n * (n | 1); }

  __device__ void load(const E* rows) const {
    for (int at = own_thread(); at < n * n; at += thread_count()) {
      (*this)(at / n, at % n) = rows[at];
    }
  }
};

template <class E>
__device__ double modulus(E x) {
  if constexpr (parts<E> == 2) {
    return hypot(static_cast<double>(x.re), static_cast<double>(x.im));
  } else {
    return fabs(static_cast<double>(x));
  }
}
template <class E>
__device__ E over_real(E x, RealPart<E> divisor) {
  if constexpr (parts<E> == 2) {
    return {x.re / divisor, x.im / divisor};
  } else {
    return x / divisor;
  }
}
/// 1 / x, where neither is near the ends of the range.
template <class E>
__device__ E reciprocal(E x) {
  if constexpr (parts<E> == 2) {
    const RealPart<E> unit = to_unit_size(size_of(x));
    const E near_one = scaled(x, unit);
    return scaled(over_real(conjugate(near_one), square(near_one)), unit);
  } else {
    return 1 / x;
  }
}

struct Sum {
  __device__ double operator()(double a, double b) const { return a + b; }
};
/// NaN if one is.
struct Larger {
  __device__ double operator()(double a, double b) const { return a >= b || isnan(a) ? a : b; }
};
template <class Combine>
__device__ double over_warp(double mine, Combine combine) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    mine = combine(mine, from_partner(mine, distance));
  }
  return mine;
}
/// Called by all threads of the block; all have the result.
template <class Combine>
__device__ double over_block(double mine, Combine combine) {
  __shared__ double of_warps[most_warps];
  mine = over_warp(mine, combine);
  __syncthreads();  // what was here before has been read
  if (own_lane() == 0) {
    of_warps[own_warp()] = mine;
  }
  __syncthreads();
  double all = of_warps[0];
  for (int warp = 1; warp < warp_count(); ++warp) {
    all = combine(all, of_warps[warp]);
  }
  return all;
}

/// Where nobody has to scale, whatever the dtype; not of NaN.
inline __device__ bool is_in_range(double norm) { return norm >= 0x1p-60 && norm <= 0x1p+60; }
/// Likewise of what is solved for.
template <class E>
__device__ bool is_far_from_ends(double size) {
  constexpr int exponent = sizeof(RealPart<E>) == sizeof(float) ? 100 : 400;
  return size >= scalbn(1.0, -exponent) && size <= scalbn(1.0, exponent);
}

inline __device__ void write_scaled(double number, std::int32_t* words) {
  int exponent = 0;
  const double fraction = frexp(number, &exponent);
  words[0] = __double2loint(fraction);
  words[1] = __double2hiint(fraction);
  words[2] = exponent;
}
inline __device__ double read_scaled(const std::int32_t* words) {
  return scalbn(__hiloint2double(words[1], words[0]), words[2]);
}
/// By all threads.
inline __device__ void write_head(const SmallSystems& call, bool fine, std::int32_t* record) {
  for (int at = own_thread(); at < SmallSystems::head_words; at += thread_count()) {
    record[at] = fine || at > 0 ? call.head[at] : SmallSystems::undecided;
  }
}
inline __device__ bool is_known(const SmallSystems& call, const std::int32_t* record) {
  bool known = true;
  for (int at = 0; at < SmallSystems::known_words; ++at) {
    known = known && record[at] == call.head[at];
  }
  return known;
}
inline __device__ void write_verdict(const SmallSystems& call, bool fine, std::int32_t* verdict) {
  for (int at = own_thread(); at < SmallSystems::verdict_words; at += thread_count()) {
    verdict[at] = fine || at > 0 ? call.head[at] : SmallSystems::undecided;
  }
}

/// A column in the registers of a warp: entry i is in lane i % 32.
template <class E>
struct Column {
  static constexpr int parts_of_lane = most_rows / lanes;
  E part[parts_of_lane];

  __device__ void load(const E* v, int n) {
#pragma unroll
    for (int p = 0; p < parts_of_lane; ++p) {
      const int i = p * lanes + own_lane();
      part[p] = i < n ? v[i] : from_real<E>(0);
    }
  }
  __device__ void store(E* v, int n) const {
#pragma unroll
    for (int p = 0; p < parts_of_lane; ++p) {
      const int i = p * lanes + own_lane();
      if (i < n) {
        v[i] = part[p];
      }
    }
    __syncwarp();
  }

  /// For k from the first to the last row, or back: what all rows behind lose, entry(i, k) y, where
  /// y is value(k, v_k).
  template <class Entry, class Value>
  __device__ void eliminate_down(int n, Entry entry, Value value) {
#pragma unroll
    for (int block = 0; block < parts_of_lane; ++block) {
      const int end = min(lanes, n - block * lanes);
#pragma unroll 4
      for (int lane = 0; lane < end; ++lane) {
        const int k = block * lanes + lane;
        const E y = value(k, from_lane(part[block], lane));
#pragma unroll
        for (int p = block; p < parts_of_lane; ++p) {
          const int i = p * lanes + own_lane();
          if (i > k && i < n) {
            part[p] = subtract_product(part[p], entry(i, k), y);
          }
        }
      }
    }
  }
  template <class Entry, class Value>
  __device__ void eliminate_up(int n, Entry entry, Value value) {
#pragma unroll
    for (int block = parts_of_lane - 1; block >= 0; --block) {
      const int end = min(lanes, n - block * lanes);
#pragma unroll 4
      for (int lane = end - 1; lane >= 0; --lane) {
        const int k = block * lanes + lane;
        const E x = value(k, from_lane(part[block], lane));
#pragma unroll
        for (int p = 0; p <= block; ++p) {
          const int i = p * lanes + own_lane();
          if (i < k) {
            part[p] = subtract_product(part[p], entry(i, k), x);
          }
        }
      }
    }
  }
  /// Each entry becomes value(i, v_i).
  template <class Value>
  __device__ void replace(int n, Value value) {
#pragma unroll
    for (int p = 0; p < parts_of_lane; ++p) {
      const int i = p * lanes + own_lane();
      if (i < n) {
        part[p] = value(i, part[p]);
      }
    }
  }
};

/// Backward errors of a column; NaN if it is not decided.
struct Errors {
  double by_norm = 0;
  double by_components = 0;
};

/// b - A x by a warp, summed in twice the precision, to `residual` if there is one, and the errors
/// of x. `system` has n, ||A||_inf and entry(i, j).
template <class System, class E>
__device__ Errors errors_of(const System& system, const E* x, const E* b, E* residual) {
  double most_r = 0;
  double most_x = 0;
  double most_b = 0;
  double share = 0;
  for (int i = own_lane(); i < system.n; i += lanes) {
    WideElement<E> sums[side_by_side] = {};
    double sizes[side_by_side] = {};
    sums[0].add_product(b[i], from_real<E>(1));
    for (int first = 0; first < system.n; first += side_by_side) {
#pragma unroll
      for (int k = 0; k < side_by_side; ++k) {
        const int j = first + k;
        const E entry = j < system.n ? system.entry(i, j) : from_real<E>(0);
        const E factor = j < system.n ? x[j] : from_real<E>(0);
        sums[k].add_product(negated(entry), factor);
        if constexpr (System::by_components) {
          sizes[k] += modulus(entry) * modulus(factor);
        }
      }
    }
    for (int k = 1; k < side_by_side; ++k) {
      sums[0].add(sums[k]);
      sizes[0] += sizes[k];
    }
    const E left = sums[0].leading();
    if (residual != nullptr) {
      residual[i] = left;
    }
    const double of_b = modulus(b[i]);
    most_r = Larger{}(most_r, modulus(left));
    most_x = Larger{}(most_x, modulus(x[i]));
    most_b = Larger{}(most_b, of_b);
    const double size = sizes[0] + of_b;
    share = Larger{}(share, size > 0 ? modulus(left) / size : modulus(left));
  }
  most_r = over_warp(most_r, Larger{});
  most_x = over_warp(most_x, Larger{});
  most_b = over_warp(most_b, Larger{});
  if (most_b == 0 && most_x == 0) {
    return {};
  }
  const double whole = system.norm * most_x + most_b;
  if (!is_far_from_ends<E>(whole) || !is_far_from_ends<E>(most_x)) {
    return {NAN, NAN};
  }
  return {most_r / whole, System::by_components ? over_warp(share, Larger{}) : 0.0};
}

/// A warp's room for three columns.
template <class E>
constexpr std::size_t column_bytes(std::int64_t n) {
  return 3 * sizeof(E) * static_cast<std::size_t>(n);
}

/// All columns of an item, a warp each, and the worst errors; called by all threads. `room`: see
/// column_bytes(), for every warp. A column is refined once, if that is wanted and helps.
template <class System, class E>
__device__ Errors solve_columns(const System& system, const SmallSystems& call, std::int64_t item,
                                E* room) {
  const int n = system.n;
  E* const b = room + 3 * n * own_warp();
  E* x = b + n;
  E* other = x + n;
  Errors worst;
  for (std::int64_t column = own_warp(); column < call.columns; column += warp_count()) {
    const E* const given = call.b.of<const E>(item) + column * n;
    for (int i = own_lane(); i < n; i += lanes) {
      b[i] = conjugate(given[i]);
      x[i] = b[i];
    }
    __syncwarp();
    system.solve(x);
    Errors errors = errors_of(system, x, b, other);
    __syncwarp();
    if (System::is_refined(errors)) {
      system.solve(other);
      for (int i = own_lane(); i < n; i += lanes) {
        other[i] = sum_of(x[i], other[i]);
      }
      __syncwarp();
      const Errors again = errors_of(system, other, b, static_cast<E*>(nullptr));
      if (System::is_better(again, errors)) {
        errors = again;
        E* const closer = other;
        other = x;
        x = closer;
      }
    }
    E* const solution = call.x.of<E>(item) + column * n;
    for (int i = own_lane(); i < n; i += lanes) {
      solution[i] = conjugate(x[i]);
    }
    __syncwarp();
    worst.by_norm = Larger{}(worst.by_norm, errors.by_norm);
    worst.by_components = Larger{}(worst.by_components, errors.by_components);
  }
  return {over_block(worst.by_norm, Larger{}), over_block(worst.by_components, Larger{})};
}

/// Warps of a block.
constexpr int warps_for(std::int64_t n) { return n <= lanes ? 2 : most_warps; }

/// One block for each item, with so many bytes; `words`: where a verdict begins.
inline void launch_small(cudaStream_t stream, void (*kernel)(SmallSystems), std::size_t bytes,
                         const SmallSystems& call, const SmallItems& words) {
  constexpr std::size_t of_the_block = 4096;  // and of the driver
  if (call.n > most_small_rows || bytes + of_the_block > max_shared()) {
    leave_undecided(stream, call.batch, words);
    return;
  }
  allow_shared(kernel, bytes);
  launch(stream, kernel, call.batch,
         {dim3(static_cast<unsigned>(warps_for(call.n) * lanes)), bytes}, call);
}

}  // namespace shardsolve::runtime::cuda::small
