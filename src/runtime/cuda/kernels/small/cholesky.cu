/// A = U^H U of small matrices, and solves. What is above the diagonal of A becomes U; below it A
/// stays, and its diagonal has an array of its own.
#include "runtime/cuda/kernels/small/block.cuh"
#include "runtime/cuda/small_systems.hpp"

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda::small {
namespace {

/// ||A||, by all threads; NaN if A is not Hermitian beyond doubt, see `is_hermitian` of the JAX
/// package.
template <class E>
__device__ double norm_of_hermitian(const Tile<E>& a) {
  const double allowed = 16 * sqrt(static_cast<double>(a.n)) * roundoff<E>;
  double norm = 0;
  for (int i = own_warp(); i < a.n; i += warp_count()) {
    double size = 0;
    double off = 0;
    for (int j = own_lane(); j < a.n; j += lanes) {
      size += modulus(a(i, j));
      off += modulus(sum_of(a(i, j), negated(conjugate(a(j, i)))));
    }
    size = over_warp(size, Sum{});
    off = over_warp(off, Sum{});
    norm = Larger{}(norm, off <= allowed * size ? size : NAN);
  }
  return over_block(norm, Larger{});
}

/// U above the diagonal of `a`, what is on it to `roots`; false if a pivot is not positive, or so
/// small that it may lack digits. Two rows at a time, as a row is mostly waiting for roots.
template <class E>
__device__ bool eliminate(const Tile<E>& a, RealPart<E>* roots) {
  using R = RealPart<E>;
  const int n = a.n;
  const int step = warp_count();
  for (int k = 0; k < n; k += 2) {
    const int next = k + 1;
    const bool is_last = next == n;
    const R pivot = real(a(k, k));
    const R inverse = rsqrt(pivot);
    const E corner = is_last ? from_real<E>(0) : scaled(a(k, next), inverse);
    const R next_pivot = is_last ? R{1} : real(a(next, next)) - square(corner);
    const R next_inverse = rsqrt(next_pivot);
    if (!(pivot * inverse > least_pivot<E>) || !(next_pivot * next_inverse > least_pivot<E>)) {
      return false;
    }
    for (int j = k + 2 + own_thread(); j < n; j += thread_count()) {
      const E first = scaled(a(k, j), inverse);
      a(k, j) = first;
      a(next, j) = scaled(subtract_product(a(next, j), conjugate(corner), first), next_inverse);
    }
    __syncthreads();
    if (own_thread() == 0) {
      roots[k] = sqrt(pivot);
      if (!is_last) {
        roots[next] = sqrt(next_pivot);
        a(k, next) = corner;
      }
    }
    for (int begin = k + 2 + own_warp(); begin < n; begin += side_by_side * step) {
      E left[side_by_side];
      E next_left[side_by_side];
#pragma unroll
      for (int r = 0; r < side_by_side; ++r) {
        const int i = begin + r * step;
        left[r] = i < n ? conjugate(a(k, i)) : from_real<E>(0);
        next_left[r] = i < n ? conjugate(a(next, i)) : from_real<E>(0);
      }
      for (int j = begin + own_lane(); j < n; j += lanes) {
        const E right = a(k, j);
        const E next_right = a(next, j);
        E entry[side_by_side];
#pragma unroll
        for (int r = 0; r < side_by_side; ++r) {
          const int i = begin + r * step;
          entry[r] = i <= j ? a(i, j) : from_real<E>(0);
        }
#pragma unroll
        for (int r = 0; r < side_by_side; ++r) {
          const int i = begin + r * step;
          if (i <= j) {
            a(i, j) = subtract_product(subtract_product(entry[r], left[r], right), next_left[r],
                                       next_right);
          }
        }
      }
    }
    __syncthreads();
  }
  return true;
}

template <class E>
__global__ void __launch_bounds__(most_threads) factor(const __grid_constant__ SmallSystems call) {
  using R = RealPart<E>;
  const std::int64_t item = blockIdx.x;
  const int n = static_cast<int>(call.n);
  const Tile<E> a{&dynamic_shared<E>(), n};
  R* const roots = reinterpret_cast<R*>(a.end());
  a.load(call.a.of<const E>(item));
  __syncthreads();
  R* const diagonal = call.diagonal.of<R>(item);
  for (int i = own_thread(); i < n; i += thread_count()) {
    diagonal[i] = real(a(i, i));
  }
  const double norm = norm_of_hermitian(a);
  __syncthreads();
  const bool fine = is_in_range(norm) && eliminate(a, roots);
  std::int32_t* const record = call.record.of<std::int32_t>(item);
  write_head(call, fine, record);
  if (!fine) {
    return;
  }
  double log_of_roots = 0;
  for (int i = own_thread(); i < n; i += thread_count()) {
    log_of_roots += log(static_cast<double>(roots[i]));
  }
  log_of_roots = over_block(log_of_roots, Sum{});
  if (own_thread() == 0) {
    *call.log.of<R>(item) = static_cast<R>(2 * log_of_roots);
    write_scaled(norm, record + SmallSystems::head_words);
  }
  E* const slab = call.slab.of<E>(item);
  for (int at = own_thread(); at < n * n; at += thread_count()) {
    const int i = at / n;
    const int j = at % n;
    slab[at] = i == j ? from_real<E>(roots[i]) : a(i, j);
  }
}

/// For errors_of() and solve_columns().
template <class E>
struct System {
  static constexpr bool by_components = false;

  Tile<E> slab;
  const RealPart<E>* diagonal;
  const RealPart<E>* inverses;  ///< of U's
  double norm;
  int n;

  __device__ E entry(int i, int j) const {
    return j < i ? slab(i, j) : j > i ? conjugate(slab(j, i)) : from_real<E>(diagonal[i]);
  }
  static __device__ bool is_refined(const Errors& errors) {
    return errors.by_norm > refined_from * roundoff<E>;
  }
  static __device__ bool is_better(const Errors& again, const Errors& before) {
    return again.by_norm < before.by_norm;
  }

  /// By a warp; v in shared memory, as all lanes see it.
  __device__ void solve(E* v) const {
    const auto over_pivot = [this](int k, E value) { return scaled(value, inverses[k]); };
    Column<E> column;
    column.load(v, n);
    // U^H y = b, U x = y
    column.eliminate_down(n, [this](int i, int k) { return conjugate(slab(k, i)); }, over_pivot);
    column.replace(n, over_pivot);
    column.eliminate_up(n, [this](int i, int k) { return slab(i, k); }, over_pivot);
    column.replace(n, over_pivot);
    column.store(v, n);
  }
};

template <class E>
__global__ void __launch_bounds__(most_threads) solve(const __grid_constant__ SmallSystems call) {
  using R = RealPart<E>;
  const std::int64_t item = blockIdx.x;
  const int n = static_cast<int>(call.n);
  const Tile<E> slab{&dynamic_shared<E>(), n};
  E* const room = slab.end();
  R* const diagonal = reinterpret_cast<R*>(room + 3 * n * warp_count());
  R* const inverses = diagonal + n;
  const std::int32_t* const record = call.record.of<const std::int32_t>(item);
  const bool known = is_known(call, record);
  Errors worst;
  if (known) {
    slab.load(call.slab.of<const E>(item));
    for (int i = own_thread(); i < n; i += thread_count()) {
      diagonal[i] = call.diagonal.of<const R>(item)[i];
      inverses[i] = 1 / real(call.slab.of<const E>(item)[i * n + i]);
    }
    __syncthreads();
    const System<E> system{slab, diagonal, inverses, read_scaled(record + SmallSystems::head_words),
                           n};
    worst = solve_columns(system, call, item, room);
  }
  write_verdict(call, known && isfinite(worst.by_norm), call.verdict.of<std::int32_t>(item));
  if (own_thread() == 0) {
    *call.errors.of<R>(item) = static_cast<R>(worst.by_norm);
  }
}

template <class E>
void enqueue_typed(cudaStream_t stream, const SmallSystems& call) {
  const std::size_t n = static_cast<std::size_t>(call.n);
  if (call.step == SmallStep::cholesky_factor) {
    launch_small(stream, &factor<E>, Tile<E>::bytes(call.n) + sizeof(RealPart<E>) * n, call,
                 call.record);
  } else {
    launch_small(stream, &solve<E>,
                 Tile<E>::bytes(call.n) +
                     static_cast<std::size_t>(warps_for(call.n)) * column_bytes<E>(call.n) +
                     2 * sizeof(RealPart<E>) * n,
                 call, call.verdict);
  }
}

}  // namespace

void enqueue_cholesky(cudaStream_t stream, const SmallSystems& call) {
  switch (call.dtype) {
    case Dtype::float32:
      return enqueue_typed<float>(stream, call);
    case Dtype::float64:
      return enqueue_typed<double>(stream, call);
    case Dtype::complex64:
      return enqueue_typed<Complex<float>>(stream, call);
    case Dtype::complex128:
      return enqueue_typed<Complex<double>>(stream, call);
  }
}

}  // namespace shardsolve::runtime::cuda::small
