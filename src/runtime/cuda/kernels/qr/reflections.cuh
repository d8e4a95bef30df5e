/// Householder reflections, column by column, as LAPACK's geqr2 and org2r make them; sums and
/// scales are in double precision.
#pragma once

#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/qr/block_sums.cuh"

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda::qr {

template <class E>
using WideElement = std::conditional_t<parts<E> == 2, Complex<double>, double>;

/// Column j below its diagonal becomes v, without the 1 that it begins with; the entry on the
/// diagonal that of R, which is real.
template <class E>
__global__ void __launch_bounds__(threads)
    make_reflector(DeviceMatrix<E> a, std::int64_t j, WideElement<E>* scales) {
  using W = WideElement<E>;
  double size = 0;
  for (std::int64_t i = j + threadIdx.x; i < a.rows; i += threads) {
    size = larger(size, size_of(widened(a(i, j))));
  }
  size = over_block(size, Larger{});
  const double unit = to_unit_size(size);
  const W first = scaled(widened(a(j, j)), unit);
  double sum = 0;
  for (std::int64_t i = j + 1 + threadIdx.x; i < a.rows; i += threads) {
    sum += square(scaled(widened(a(i, j)), unit));
  }
  sum = block_sum(sum);
  if (sum == 0 && imaginary(first) == 0) {
    if (threadIdx.x == 0) {
      scales[j] = from_real<W>(0);
    }
    return;
  }
  const double length = sqrt(square(first) + sum);
  const double beta = real(first) > 0 ? -length : length;
  // v = x / (first - beta), tau = (beta - first) / beta
  const W difference = sum_of(first, from_real<W>(-beta));
  const double squared = square(difference);
  const W inverse = scaled(conjugate(difference), 1 / squared);
  double squares = 0;
  for (std::int64_t i = j + 1 + threadIdx.x; i < a.rows; i += threads) {
    const E v = rounded<E>(product_of(scaled(widened(a(i, j)), unit), inverse));
    squares += square(widened(v));
    a(i, j) = v;
  }
  squares = block_sum(squares);
  if (threadIdx.x == 0) {
    // Rounding of equal entries all goes to one side. With a tau that fits the v that there is,
    // |tau|^2 v^H v = 2 Re tau, the reflection is unitary all the same.
    const W tau = scaled(difference, -1 / beta);
    scales[j] = scaled(tau, 2 * real(tau) / (square(tau) * (1 + squares)));
    a(j, j) = rounded<E>(from_real<W>(beta / unit));
  }
}

/// Columns from `begin` on, a block each, times I - tau v v^H, or its adjoint.
template <class E>
__global__ void __launch_bounds__(threads)
    apply_reflector(DeviceMatrix<E> a, std::int64_t j, std::int64_t begin, bool adjoint,
                    const WideElement<E>* scales) {
  using W = WideElement<E>;
  const std::int64_t c = begin + blockIdx.x;
  W sum = from_real<W>(0);
  for (std::int64_t i = j + threadIdx.x; i < a.rows; i += threads) {
    const W v = i == j ? from_real<W>(1) : widened(a(i, j));
    sum = add_product_conjugate(sum, widened(a(i, c)), v);
  }
  sum = block_sum(sum);
  const W tau = adjoint ? conjugate(scales[j]) : scales[j];
  const W factor = negated(product_of(tau, sum));
  for (std::int64_t i = j + threadIdx.x; i < a.rows; i += threads) {
    const W v = i == j ? from_real<W>(1) : widened(a(i, j));
    a(i, c) = rounded<E>(add_product(widened(a(i, c)), factor, v));
  }
}

/// Column j of Q, of its reflector.
template <class E>
__global__ void __launch_bounds__(threads)
    reflect_unit(DeviceMatrix<E> a, std::int64_t j, const WideElement<E>* scales) {
  using W = WideElement<E>;
  const W factor = negated(scales[j]);
  for (std::int64_t i = threadIdx.x; i < a.rows; i += threads) {
    const W entry = i < j    ? from_real<W>(0)
                    : i == j ? sum_of(from_real<W>(1), factor)
                             : product_of(widened(a(i, j)), factor);
    a(i, j) = rounded<E>(entry);
  }
}

/// R on and above the diagonal of a, reflectors below it.
template <class E>
void factor_by_reflections(cudaStream_t stream, DeviceMatrix<E> a, std::int64_t count,
                           WideElement<E>* scales) {
  const Block block{dim3(threads)};
  for (std::int64_t j = 0; j < count; ++j) {
    launch(stream, &make_reflector<E>, 1, block, a, j, scales);
    launch(stream, &apply_reflector<E>, a.columns - j - 1, block, a, j, j + 1, true,
           static_cast<const WideElement<E>*>(scales));
  }
}

/// The first `count` columns of Q in place of what factor_by_reflections() has left.
template <class E>
void form_q(cudaStream_t stream, DeviceMatrix<E> a, std::int64_t count,
            const WideElement<E>* scales) {
  const Block block{dim3(threads)};
  for (std::int64_t j = count - 1; j >= 0; --j) {
    launch(stream, &apply_reflector<E>, count - j - 1, block, a, j, j + 1, false, scales);
    launch(stream, &reflect_unit<E>, 1, block, a, j, scales);
  }
}

}  // namespace shardsolve::runtime::cuda::qr
