/// Activations and their derivatives at one argument.
#pragma once

#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/device_boxes.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// The derivatives of order 0 to 4.
using Derivatives = double[JetTable::max_order + 1];

inline __device__ void tanh_derivatives(double z, Derivatives& f) {
  const double t = tanh(z);
  const double s = 1.0 - t * t;
  f[0] = t;
  f[1] = s;
  f[2] = -2.0 * t * s;
  f[3] = s * (6.0 * t * t - 2.0);
  f[4] = s * t * (16.0 - 24.0 * t * t);
}

/// 1 / (1 + e^-z) = (1 + tanh(z / 2)) / 2.
inline __device__ void sigmoid_derivatives(double z, Derivatives& f) {
  tanh_derivatives(0.5 * z, f);
  double factor = 0.5;
#pragma unroll
  for (int m = 0; m <= JetTable::max_order; ++m) {
    f[m] *= factor;
    factor *= 0.5;
  }
  f[0] += 0.5;
}

inline __device__ void activation_derivatives(fbpinn::Activation activation, double z,
                                              Derivatives& f) {
  constexpr int most = JetTable::max_order;
  Derivatives of_sigmoid;
  switch (activation) {
    case fbpinn::Activation::tanh:
      return tanh_derivatives(z, f);
    case fbpinn::Activation::sigmoid:
      return sigmoid_derivatives(z, f);
    case fbpinn::Activation::sin:
      f[0] = sin(z);
      f[1] = cos(z);
      f[2] = -f[0];
      f[3] = -f[1];
      f[4] = f[0];
      return;
    case fbpinn::Activation::softplus:
      sigmoid_derivatives(z, of_sigmoid);
      f[0] = log1p(exp(-fabs(z))) + max(z, 0.0);
#pragma unroll
      for (int m = 1; m <= most; ++m) {
        f[m] = of_sigmoid[m - 1];
      }
      return;
    case fbpinn::Activation::gaussian:
      f[0] = exp(-z * z);
      f[1] = -2.0 * z * f[0];
      // f_{m+1} = -2 z f_m - 2 m f_{m-1}
#pragma unroll
      for (int m = 2; m <= most; ++m) {
        f[m] = -2.0 * z * f[m - 1] - 2.0 * (m - 1) * f[m - 2];
      }
      return;
    case fbpinn::Activation::silu:
      sigmoid_derivatives(z, of_sigmoid);
      f[0] = z * of_sigmoid[0];
#pragma unroll
      for (int m = 1; m <= most; ++m) {
        f[m] = z * of_sigmoid[m] + m * of_sigmoid[m - 1];
      }
      return;
  }
}

}  // namespace shardsolve::runtime::cuda
