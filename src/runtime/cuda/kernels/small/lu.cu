/// P C = L U of small matrices C = A^T, and solves with A. Memory that has A by rows has C by
/// columns: row c of a tile is column c of C, and becomes that of L, whose 1 is left out, and U.
#include "runtime/cuda/kernels/small/block.cuh"
#include "runtime/cuda/small_systems.hpp"

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda::small {
namespace {

/// By a warp: the place of the largest of column[k..n), by the sum of its parts' sizes; the first
/// one of several.
template <class E>
__device__ int find_pivot(const E* column, int k, int n) {
  double most = -1;
  int place = n;
  for (int i = k + own_lane(); i < n; i += lanes) {
    const double size = fabs(static_cast<double>(real(column[i]))) +
                        fabs(static_cast<double>(imaginary(column[i])));
    if (size > most) {
      most = size;
      place = i;
    }
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    const double size = from_partner(most, distance);
    const int other = __shfl_xor_sync(0xffffffffU, place, distance);
    if (size > most || (size == most && other < place)) {
      most = size;
      place = other;
    }
  }
  return place;
}

/// L and U in place of C, and where its rows went; false if a pivot is 0, or so small that it may
/// lack digits. `swaps`: of rows.
template <class E>
__device__ bool eliminate(const Tile<E>& c, std::int32_t* rows, int& swaps) {
  __shared__ int pivot;
  const int n = c.n;
  for (int k = 0; k < n; ++k) {
    if (own_warp() == 0) {
      const int found = find_pivot(&c(k, 0), k, n);
      if (own_lane() == 0) {
        pivot = found;
      }
    }
    __syncthreads();
    const int p = pivot;
    if (p >= n || !(modulus(c(k, p)) > least_pivot<E>)) {  // where all are NaN there is no place
      return false;
    }
    __syncthreads();  // the pivot has been read
    if (p != k) {
      ++swaps;
      for (int j = own_thread(); j < n; j += thread_count()) {
        const E kept = c(j, k);
        c(j, k) = c(j, p);
        c(j, p) = kept;
      }
      if (own_thread() == 0) {
        const std::int32_t row = rows[k];
        rows[k] = rows[p];
        rows[p] = row;
      }
      __syncthreads();
    }
    const E inverse = reciprocal(c(k, k));
    for (int i = k + 1 + own_thread(); i < n; i += thread_count()) {
      if constexpr (parts<E> == 2) {
        c(k, i) = product_of(c(k, i), inverse);
      } else {
        c(k, i) = c(k, i) / c(k, k);
      }
    }
    __syncthreads();
    const int step = warp_count();
    for (int first = k + 1 + own_warp(); first < n; first += side_by_side * step) {
      E upper[side_by_side];
#pragma unroll
      for (int r = 0; r < side_by_side; ++r) {
        const int j = first + r * step;
        upper[r] = j < n ? c(j, k) : from_real<E>(0);
      }
      for (int i = k + 1 + own_lane(); i < n; i += lanes) {
        const E left = c(k, i);
        E entry[side_by_side];
#pragma unroll
        for (int r = 0; r < side_by_side; ++r) {
          const int j = first + r * step;
          entry[r] = j < n ? c(j, i) : from_real<E>(0);
        }
#pragma unroll
        for (int r = 0; r < side_by_side; ++r) {
          const int j = first + r * step;
          if (j < n) {
            c(j, i) = subtract_product(entry[r], left, upper[r]);
          }
        }
      }
    }
    __syncthreads();
  }
  return true;
}

/// The largest sum of moduli along rows of a tile, or down its columns; and the largest modulus, on
/// and below its diagonal or of all. NaN if an entry is.
template <class E>
__device__ double largest_row(const Tile<E>& a) {
  double most = 0;
  for (int i = own_warp(); i < a.n; i += warp_count()) {
    double size = 0;
    for (int j = own_lane(); j < a.n; j += lanes) {
      size += modulus(a(i, j));
    }
    most = Larger{}(most, over_warp(size, Sum{}));
  }
  return over_block(most, Larger{});
}
template <class E>
__device__ double largest_column(const Tile<E>& a) {
  double most = 0;
  for (int j = own_thread(); j < a.n; j += thread_count()) {
    double size = 0;
    for (int i = 0; i < a.n; ++i) {
      size += modulus(a(i, j));
    }
    most = Larger{}(most, size);
  }
  return over_block(most, Larger{});
}
template <class E>
__device__ double largest_entry(const Tile<E>& a, bool lower) {
  double most = 0;
  for (int i = own_warp(); i < a.n; i += warp_count()) {
    for (int j = own_lane(); j < (lower ? i + 1 : a.n); j += lanes) {
      most = Larger{}(most, modulus(a(i, j)));
    }
  }
  return over_block(most, Larger{});
}

/// det A = sign exp(log): by the first warp.
template <class E>
__device__ void write_determinant(const Tile<E>& c, int swaps, const SmallSystems& call,
                                  std::int64_t item) {
  using R = RealPart<E>;
  E sign = from_real<E>(1);
  double log_of_pivots = 0;
  for (int i = own_lane(); i < c.n; i += lanes) {
    const double size = modulus(c(i, i));
    log_of_pivots += log(size);
    sign = product_of(sign, over_real(c(i, i), static_cast<R>(size)));
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    log_of_pivots += from_partner(log_of_pivots, distance);
    sign = product_of(sign, from_partner(sign, distance));
  }
  if (own_lane() == 0) {
    *call.log.of<R>(item) = static_cast<R>(log_of_pivots);
    *call.sign.of<E>(item) = swaps % 2 == 0 ? sign : negated(sign);
  }
}

template <class E>
__global__ void __launch_bounds__(most_threads)
    factor_lu(const __grid_constant__ SmallSystems call) {
  const std::int64_t item = blockIdx.x;
  const int n = static_cast<int>(call.n);
  const Tile<E> c{&dynamic_shared<E>(), n};
  auto* const rows = reinterpret_cast<std::int32_t*>(c.end());
  c.load(call.a.of<const E>(item));
  for (int i = own_thread(); i < n; i += thread_count()) {
    rows[i] = i;
  }
  __syncthreads();
  const double one_norm = largest_row(c);  // of C
  const double inf_norm = largest_column(c);
  const double most = largest_entry(c, false);
  __syncthreads();
  int swaps = 0;
  bool fine = is_in_range(one_norm) && is_in_range(inf_norm) && eliminate(c, rows, swaps);
  const double growth = fine ? largest_entry(c, true) / most : 0;
  fine = fine && isfinite(growth);
  std::int32_t* const record = call.record.of<std::int32_t>(item);
  write_head(call, fine, record);
  if (!fine) {
    return;
  }
  if (own_thread() == 0) {
    std::int32_t* const numbers = record + SmallSystems::head_words;
    write_scaled(one_norm, numbers);
    write_scaled(inf_norm, numbers + 3);
    write_scaled(growth, numbers + 6);
  }
  if (own_warp() == 0) {
    write_determinant(c, swaps, call, item);
  }
  for (int i = own_thread(); i < n; i += thread_count()) {
    call.rows.of<std::int32_t>(item)[i] = rows[i];
  }
  E* const slab = call.slab.of<E>(item);
  for (int at = own_thread(); at < n * n; at += thread_count()) {
    slab[at] = c(at / n, at % n);
  }
}

/// For errors_of() and solve_columns().
template <class E>
struct LuSystem {
  static constexpr bool by_components = true;

  Tile<E> slab;
  const E* a;  ///< by rows
  const E* inverses;
  const std::int32_t* rows;
  bool adjoint;
  double norm;
  int n;

  __device__ E entry(int i, int j) const {
    return adjoint ? conjugate(a[j * n + i]) : a[i * n + j];
  }
  static __device__ bool is_good(const Errors& errors) {
    return errors.by_norm <= refined_from * roundoff<E> &&
           errors.by_components <= refined_from_by_components * roundoff<E>;
  }
  static __device__ bool is_refined(const Errors& errors) { return !is_good(errors); }
  static __device__ bool is_better(const Errors& again, const Errors& before) {
    return again.by_norm < before.by_norm || (again.by_norm <= refined_from * roundoff<E> &&
                                              again.by_components < before.by_components);
  }

  /// By a warp; v in shared memory, as all lanes see it.
  __device__ void solve(E* v) const {
    const auto as_it_is = [](int, E value) { return value; };
    const auto over_pivot = [this](int k, E value) {
      return product_of(value, adjoint ? conjugate(inverses[k]) : inverses[k]);
    };
    Column<E> column;
    if (adjoint) {  // conj(L) conj(U) x = P b
      const auto turned = [this](int i, int k) { return conjugate(slab(k, i)); };
      column.replace(n, [&](int i, E) { return v[rows[i]]; });
      __syncwarp();
      column.eliminate_down(n, turned, as_it_is);
      column.eliminate_up(n, turned, over_pivot);
      column.replace(n, over_pivot);
      column.store(v, n);
      return;
    }
    const auto as_it_lies = [this](int i, int k) { return slab(i, k); };
    column.load(v, n);
    // U^T y = b, L^T P x = y
    column.eliminate_down(n, as_it_lies, over_pivot);
    column.replace(n, over_pivot);
    column.eliminate_up(n, as_it_lies, as_it_is);
    column.replace(n, [&](int i, E value) { return v[rows[i]] = value; });
    __syncwarp();
  }
};

template <class E>
__global__ void __launch_bounds__(most_threads)
    solve_lu(const __grid_constant__ SmallSystems call) {
  using R = RealPart<E>;
  const std::int64_t item = blockIdx.x;
  const int n = static_cast<int>(call.n);
  const Tile<E> slab{&dynamic_shared<E>(), n};
  E* const room = slab.end();
  E* const inverses = room + 3 * n * warp_count();
  auto* const rows = reinterpret_cast<std::int32_t*>(inverses + n);
  const std::int32_t* const record = call.record.of<const std::int32_t>(item);
  const std::int32_t* const numbers = record + SmallSystems::head_words;
  bool fine = is_known(call, record) &&
              read_scaled(numbers + 6) * sqrt(roundoff<E>) < 1;  // not of grown factors
  Errors worst;
  if (fine) {
    slab.load(call.slab.of<const E>(item));
    for (int i = own_thread(); i < n; i += thread_count()) {
      inverses[i] = reciprocal(call.slab.of<const E>(item)[i * n + i]);
      rows[i] = call.rows.of<const std::int32_t>(item)[i];
    }
    __syncthreads();
    const LuSystem<E> system{slab,
                             call.a.of<const E>(item),
                             inverses,
                             rows,
                             call.adjoint,
                             read_scaled(numbers + (call.adjoint ? 3 : 0)),
                             n};
    worst = solve_columns(system, call, item, room);
    fine = LuSystem<E>::is_good(worst);
  }
  write_verdict(call, fine, call.verdict.of<std::int32_t>(item));
  if (own_thread() == 0) {
    call.errors.of<R>(item)[0] = static_cast<R>(worst.by_norm);
    call.errors.of<R>(item)[1] = static_cast<R>(worst.by_components);
  }
}

template <class E>
void enqueue_typed_lu(cudaStream_t stream, const SmallSystems& call) {
  const std::size_t n = static_cast<std::size_t>(call.n);
  const std::size_t bytes = Tile<E>::bytes(call.n) + sizeof(std::int32_t) * n;
  if (call.step == SmallStep::lu_factor) {
    launch_small(stream, &factor_lu<E>, bytes, call, call.record);
  } else {
    launch_small(stream, &solve_lu<E>,
                 bytes + static_cast<std::size_t>(warps_for(call.n)) * column_bytes<E>(call.n) +
                     sizeof(E) * n,
                 call, call.verdict);
  }
}

}  // namespace

void enqueue_lu(cudaStream_t stream, const SmallSystems& call) {
  switch (call.dtype) {
    case Dtype::float32:
      return enqueue_typed_lu<float>(stream, call);
    case Dtype::float64:
      return enqueue_typed_lu<double>(stream, call);
    case Dtype::complex64:
      return enqueue_typed_lu<Complex<float>>(stream, call);
    case Dtype::complex128:
      return enqueue_typed_lu<Complex<double>>(stream, call);
  }
}

}  // namespace shardsolve::runtime::cuda::small
