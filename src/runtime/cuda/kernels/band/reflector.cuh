/// Householder reflectors as LAPACK's larfg has them.
#pragma once

#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

#include <cmath>
#include <limits>

namespace shardsolve::runtime::cuda {

/// H = I - tau [1; v] [1; v]^H with H^H [alpha; x] = [beta; 0], where v = scale x.
template <class E>
struct Reflector {
  E tau;
  E scale;
  RealPart<E> beta;
};

template <class R>
constexpr R of_no_account = std::numeric_limits<R>::min() / std::numeric_limits<R>::epsilon() /
                            std::numeric_limits<R>::epsilon();

/// `squares`: ||x||^2. The largest of alpha and x is near 1, or was so once and rounding has left
/// these. What is of no account beside 1, even if it is squared, is taken for zero; then H = I.
template <class E>
__device__ Reflector<E> reflector(E alpha, RealPart<E> squares) {
  using R = RealPart<E>;
  const R beside = squares + imaginary(alpha) * imaginary(alpha);
  if (beside < of_no_account<R>) {
    return {from_real<E>(0), from_real<E>(0), real(alpha)};
  }
  const R length = sqrt(beside + real(alpha) * real(alpha));
  const R beta = real(alpha) > 0 ? -length : length;
  const R difference = real(alpha) - beta;  // of numbers of opposite signs
  if constexpr (parts<E> == 2) {
    const R reciprocal = R{1} / (difference * difference + alpha.im * alpha.im);
    return {{-difference / beta, -alpha.im / beta},
            {difference * reciprocal, -alpha.im * reciprocal},
            beta};
  } else {
    return {-difference / beta, R{1} / difference, beta};
  }
}

/// The sum over all lanes, in each of them.
template <class E>
__device__ E sum_over_lanes(E value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value = sum_of(value, from_partner(value, distance));
  }
  return value;
}
template <class R>
__device__ R largest_of_lanes(R value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    const R other = from_partner(value, distance);
    value = other > value ? other : value;
  }
  return value;
}

}  // namespace shardsolve::runtime::cuda
