/// Chebyshev's iteration between products that somebody else makes: what the JAX package calls. The
/// kernels are those of Operator::chebyshev, so the bits are.
#pragma once

#include "krylov/chebyshev_factors.hpp"
#include "runtime/host/spare_threads.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::krylov {

/// One step on one device, whose memory this is. Travels between libraries as it is.
struct LocalChebyshev {
  Dtype dtype = Dtype::float64;
  std::int64_t rows = 0;
  double low = 0.0;
  double high = 0.0;
  std::int64_t step = 0;          ///< 0: the beginning
  const void* product = nullptr;  ///< A d; the vector that the polynomial is applied to at first
  void* residual = nullptr;
  void* direction = nullptr;
  void* sum = nullptr;
  /// D of the iteration for D^-1 A, and memory for D^-1 times the residual; or both null: D = I.
  const void* diagonal = nullptr;
  void* scaled = nullptr;
  /// 0, in the device's memory.
  const std::int32_t* zero = nullptr;
};

/// combine(a, x, b, y): y = a x + b y, and divide(d, x, y): y = d^-1 x, as those of KrylovKernels.
template <Scalar T, class Combine, class Divide>
void enqueue(const LocalChebyshev& call, Combine combine, Divide divide) {
  using Real = RealOf<T>;
  const auto view = [&](void* data) { return MatrixView<T>(static_cast<T*>(data), call.rows, 1); };
  const MatrixView<const T> product(static_cast<const T*>(call.product), call.rows, 1);
  const MatrixView<T> residual = view(call.residual);
  const MatrixView<T> direction = view(call.direction);
  const MatrixView<T> sum = view(call.sum);
  const auto scaled_residual = [&]() -> MatrixView<const T> {
    if (call.diagonal == nullptr) {
      return residual;
    }
    divide({static_cast<const T*>(call.diagonal), call.rows, 1}, residual, view(call.scaled));
    return view(call.scaled);
  };
  ChebyshevFactors factors(call.low, call.high);
  if (call.step == 0) {
    combine(Real{1}, product, Real{0}, residual);
    combine(static_cast<Real>(factors.first()), scaled_residual(), Real{0}, direction);
    combine(Real{1}, direction, Real{0}, sum);
    return;
  }
  for (std::int64_t before = 1; before < call.step; ++before) {
    factors.next();
  }
  const ChebyshevFactors::Step step = factors.next();
  combine(Real{-1}, product, Real{1}, residual);
  combine(static_cast<Real>(step.residual), scaled_residual(), static_cast<Real>(step.direction),
          direction);
  combine(Real{1}, direction, Real{1}, sum);
}

/// Does it on the CPU, in the caller's thread, with help if there are many rows.
void run_on_host(const LocalChebyshev& call, runtime::host::SpareThreads* spare = nullptr);

}  // namespace shardsolve::krylov
