/// Singular values of a small matrix by rotations of its columns (one-sided Jacobi; J. Demmel,
/// K. Veselic, SIAM J. Matrix Anal. Appl. 13 (1992) 1204): A V = U diag(s). All sweeps are one
/// kernel, whose blocks meet after each round of disjoint pairs. V is empty where only the values
/// are wanted.
#include "runtime/cuda/kernels/meeting.cuh"
#include "runtime/cuda/kernels/qr/reflections.cuh"
#include "runtime/cuda/qr_device_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int max_sweeps = 40;
/// Squared norms below which a column counts as zero; the largest entry is of size 1.
constexpr double no_column = 1e-290;

/// Device memory beside the matrices.
template <class E>
struct Work {
  E* scales;
  double* norms;
  double* unit;             // one: what `a` was multiplied by
  std::int64_t* order;      // which column is the largest, and so on
  std::int64_t* ended;      // one
  std::int64_t* rotated;    // of each sweep: whether there was a rotation
  std::uint32_t* arrivals;  // of blocks that meet
};

template <class E>
__global__ void __launch_bounds__(qr::threads) begin_sweeps(DeviceMatrix<E> a, Work<E> work) {
  double size = 0;
  for (std::int64_t j = 0; j < a.columns; ++j) {
    for (std::int64_t i = threadIdx.x; i < a.rows; i += qr::threads) {
      size = qr::larger(size, qr::modulus(a(i, j)));
    }
  }
  size = qr::over_block(size, qr::Larger{});
  if (threadIdx.x == 0) {
    *work.unit = isfinite(size) ? to_unit_size(size) : size;  // then nothing converges
    *work.ended = isfinite(size) ? 0 : 2;
    *work.arrivals = 0;
  }
  for (int sweep = static_cast<int>(threadIdx.x); sweep < max_sweeps; sweep += qr::threads) {
    work.rotated[sweep] = 0;
  }
}

template <class E>
__global__ void __launch_bounds__(qr::threads)
    scale_to_unit(DeviceMatrix<E> a, DeviceMatrix<E> v, Work<E> work) {
  const std::int64_t j = blockIdx.x;
  for (std::int64_t i = threadIdx.x; i < a.rows; i += qr::threads) {
    a(i, j) = scaled(a(i, j), *work.unit);
    if (v.rows > 0) {
      v(i, j) = from_real<E>(i == j ? 1 : 0);
    }
  }
}

/// A number over its modulus; of a real one 1 or -1, not something near it.
__device__ inline double direction(double number, double /*size*/) { return copysign(1.0, number); }
__device__ inline Complex<double> direction(Complex<double> number, double size) {
  return {number.re / size, number.im / size};
}

/// Two columns by a rotation of which s and t = s / (1 + c) are given; `phase` turns the second.
/// Changes are added, so that a rounded c does no harm in hundreds of rotations: H. Rutishauser,
/// Numer. Math. 9 (1966) 1.
template <class E>
struct Rotation {
  double s;
  double t;
  E phase;

  __device__ void turn(E& p, E& q) const {
    const E x = p;
    const E y = product_of(q, phase);
    p = sum_of(x, scaled(sum_of(y, scaled(x, t)), -s));
    q = sum_of(y, scaled(sum_of(x, scaled(y, -t)), s));
  }
  /// Columns p and q of both, which have as many rows, or of `a` alone.
  __device__ void turn_columns(DeviceMatrix<E> a, DeviceMatrix<E> v, std::int64_t p,
                               std::int64_t q) const {
    if (v.rows == 0) {
      for (std::int64_t i = threadIdx.x; i < a.rows; i += qr::threads) {
        turn_row(a, i, p, q);
      }
      return;
    }
    for (std::int64_t i = threadIdx.x; i < a.rows; i += qr::threads) {
      E ap = load_fresh(&a(i, p));
      E aq = load_fresh(&a(i, q));
      E vp = load_fresh(&v(i, p));
      E vq = load_fresh(&v(i, q));
      turn(ap, aq);
      turn(vp, vq);
      store_through(&a(i, p), ap);
      store_through(&a(i, q), aq);
      store_through(&v(i, p), vp);
      store_through(&v(i, q), vq);
    }
  }
  __device__ void turn_row(DeviceMatrix<E> a, std::int64_t i, std::int64_t p,
                           std::int64_t q) const {
    E ap = load_fresh(&a(i, p));
    E aq = load_fresh(&a(i, q));
    turn(ap, aq);
    store_through(&a(i, p), ap);
    store_through(&a(i, q), aq);
  }
};

/// Of all threads of the block, several sums at once; all have the results.
template <int count>
__device__ void add_over_block(double (&sums)[count]) {
  constexpr int lanes = 32;
  constexpr int warps = qr::threads / lanes;
  __shared__ double of_warps[warps][count];
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      sums[i] += __shfl_xor_sync(0xffffffffU, sums[i], distance);
    }
  }
  __syncthreads();  // what was here before has been read
  if (threadIdx.x % lanes == 0) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      of_warps[threadIdx.x / lanes][i] = sums[i];
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < count; ++i) {
    sums[i] = 0;
#pragma unroll
    for (int warp = 0; warp < warps; ++warp) {
      sums[i] += of_warps[warp][i];
    }
  }
}

/// A pair of a round of a tournament, in which no column is in two pairs, and whether there was
/// something to rotate. Columns keep their places: with the larger one in front each time, 500
/// columns took 30 sweeps in place of 11.
template <class E>
__device__ bool rotate_pair(DeviceMatrix<E> a, DeviceMatrix<E> v, std::int64_t round,
                            std::int64_t place, double tolerance) {
  const std::int64_t n = a.columns;
  const std::int64_t others = n - 1 + n % 2;
  const std::int64_t one = place == 0 ? others : (round + place) % others;
  const std::int64_t two = (round + others - place) % others;
  const std::int64_t p = one < two ? one : two;
  const std::int64_t q = one < two ? two : one;
  if (q >= n) {
    return false;
  }
  double sums[4] = {};
  for (std::int64_t i = threadIdx.x; i < a.rows; i += qr::threads) {
    const E x = load_fresh(&a(i, p));
    const E y = load_fresh(&a(i, q));
    const E both = product_of(y, conjugate(x));
    sums[0] += square(x);
    sums[1] += square(y);
    sums[2] += real(both);
    sums[3] += imaginary(both);
  }
  add_over_block(sums);
  const double of_p = sums[0];
  const double of_q = sums[1];
  E both = from_real<E>(sums[2]);
  if constexpr (parts<E> == 2) {
    both.im = sums[3];
  }
  const double size = qr::modulus(both);
  if (of_p < no_column || of_q < no_column || !(size > tolerance * (sqrt(of_p) * sqrt(of_q)))) {
    return false;
  }
  const double zeta = (of_q - of_p) / (2 * size);
  const double most = fabs(zeta);
  const double tangent =
      copysign(most > 1e9 ? 0.5 / most : 1 / (most + sqrt(1 + most * most)), zeta);
  const double c = 1 / sqrt(1 + tangent * tangent);
  const double s = c * tangent;
  const Rotation<E> rotation{s, s / (1 + c), direction(conjugate(both), size)};
  rotation.turn_columns(a, v, p, q);
  return true;
}

/// Sweeps until one has nothing to rotate. Blocks take pairs in turn; what another one has written
/// is there when they have met.
template <class E>
__global__ void __launch_bounds__(qr::threads)
    sweep_columns(DeviceMatrix<E> a, DeviceMatrix<E> v, double tolerance, Work<E> work,
                  std::int64_t blocks) {
  if (*work.ended != 0) {
    return;
  }
  const std::int64_t n = a.columns;
  std::uint32_t meetings = 0;
  for (int sweep = 0; sweep < max_sweeps; ++sweep) {
    for (std::int64_t round = 0; round < n - 1 + n % 2; ++round) {
      for (std::int64_t place = blockIdx.x; place < (n + 1) / 2; place += blocks) {
        if (rotate_pair(a, v, round, place, tolerance) && threadIdx.x == 0) {
          tell(work.rotated + sweep, std::int64_t{1});
        }
      }
      meet(work.arrivals, static_cast<std::uint32_t>(blocks), ++meetings);
    }
    if (load_fresh(work.rotated + sweep) == 0) {
      if (blockIdx.x == 0 && threadIdx.x == 0) {
        *work.ended = 1;
      }
      return;
    }
  }
}

template <class E>
__global__ void __launch_bounds__(qr::threads) find_norms(DeviceMatrix<E> a, Work<E> work) {
  const std::int64_t j = blockIdx.x;
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < a.rows; i += qr::threads) {
    sum += square(a(i, j));
  }
  sum = qr::block_sum(sum);
  if (threadIdx.x == 0) {
    work.norms[j] = sum >= 0 ? sqrt(sum) : 0;  // NaN has no order
  }
}

/// Places by norm, equal ones as they are.
template <class E>
__global__ void __launch_bounds__(qr::threads)
    find_order(std::int64_t n, Work<E> work, double* s, std::int64_t* info) {
  const std::int64_t j = std::int64_t{blockIdx.x} * qr::threads + threadIdx.x;
  if (j < n) {
    const double mine = work.norms[j];
    std::int64_t before = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double other = work.norms[i];
      before += other > mine || (other == mine && i < j) ? 1 : 0;
    }
    work.order[before] = j;
    s[before] = mine / *work.unit;
  }
  if (j == 0) {
    *info = *work.ended == 1 ? 0 : 1;
  }
}

template <class E>
__global__ void __launch_bounds__(qr::threads)
    store_vh(DeviceMatrix<E> v, DeviceMatrix<E> vh, Work<E> work) {
  const std::int64_t i = blockIdx.x;
  for (std::int64_t k = threadIdx.x; k < v.columns; k += qr::threads) {
    vh(k, i) = conjugate(v(i, work.order[k]));
  }
}

template <class E>
__global__ void __launch_bounds__(qr::threads)
    store_u(DeviceMatrix<E> a, DeviceMatrix<E> u, Work<E> work) {
  const std::int64_t k = blockIdx.x;
  const std::int64_t j = work.order[k];
  const double norm = work.norms[j];
  const double inverse = norm > 0 ? 1 / norm : 0;
  for (std::int64_t i = threadIdx.x; i < a.rows; i += qr::threads) {
    u(i, k) = scaled(a(i, j), inverse);
  }
}

template <class E>
__global__ void store_signs(DeviceMatrix<E> u, Work<E> work) {
  for (std::int64_t k = threadIdx.x; k < u.columns; k += qr::threads) {
    work.norms[k] = real(u(k, k)) < 0 ? -1 : 1;
  }
}

template <class E>
__global__ void __launch_bounds__(qr::threads) turn_columns(DeviceMatrix<E> u, Work<E> work) {
  const std::int64_t k = blockIdx.x;
  for (std::int64_t i = threadIdx.x; i < u.rows; i += qr::threads) {
    u(i, k) = scaled(u(i, k), work.norms[k]);
  }
}

}  // namespace

template <class E>
std::size_t SmallQrDeviceKernels<E>::singular_values_scratch(std::int64_t n) {
  return static_cast<std::size_t>(n) * (sizeof(E) + sizeof(double) + sizeof(std::int64_t)) +
         sizeof(double) + (max_sweeps + 2) * sizeof(std::int64_t);
}

template <class E>
void SmallQrDeviceKernels<E>::singular_values(cudaStream_t stream, Out a, double* s, Out u, Out vh,
                                              std::int64_t* info, void* scratch) {
  const std::int64_t n = a.columns();
  const Block block{dim3(qr::threads)};
  Work<E> work{};
  work.scales = static_cast<E*>(scratch);
  work.norms = reinterpret_cast<double*>(work.scales + n);
  work.unit = work.norms + n;
  work.order = reinterpret_cast<std::int64_t*>(work.unit + 1);
  work.ended = work.order + n;
  work.rotated = work.ended + 1;
  work.arrivals = reinterpret_cast<std::uint32_t*>(work.rotated + max_sweeps);
  // V is in u until its adjoint is stored.
  launch(stream, &begin_sweeps<E>, 1, block, device(a), work);
  launch(stream, &scale_to_unit<E>, n, block, device(a), device(u), work);
  const double tolerance = sqrt(static_cast<double>(n)) * 0x1p-52;
  const std::int64_t blocks = std::min(std::max((n + 1) / 2, std::int64_t{1}), max_together());
  launch_together(stream, &sweep_columns<E>, blocks, block, device(a), device(u), tolerance, work,
                  blocks);
  launch(stream, &find_norms<E>, n, block, device(a), work);
  launch(stream, &find_order<E>, divide_up(n < 1 ? 1 : n, qr::threads), block, n, work, s, info);
  if (u.empty()) {
    return;
  }
  launch(stream, &store_vh<E>, n, block, device(u), device(vh), work);
  launch(stream, &store_u<E>, n, block, device(a), device(u), work);
  // Columns of zeros become some that are orthogonal to the others: U = Q diag(+-1).
  qr::factor_by_reflections<E>(stream, device(u), n, work.scales);
  launch(stream, &store_signs<E>, 1, block, device(u), work);
  qr::form_q<E>(stream, device(u), n, work.scales);
  launch(stream, &turn_columns<E>, n, block, device(u), work);
}

#define SHARDSOLVE_INSTANTIATE(E)                                                              \
  template std::size_t SmallQrDeviceKernels<E>::singular_values_scratch(std::int64_t);         \
  template void SmallQrDeviceKernels<E>::singular_values(cudaStream_t, Out, double*, Out, Out, \
                                                         std::int64_t*, void*);

SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
