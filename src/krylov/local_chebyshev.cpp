#include "krylov/local_chebyshev.hpp"

#include "core/each_dtype.hpp"
#include "krylov/chebyshev_factors.hpp"
#include "runtime/host/in_caller.hpp"
#include "runtime/host/krylov_program.hpp"
#include "runtime/krylov_kernels.hpp"

#include <shardsolve/matrix_view.hpp>

#include <algorithm>

namespace shardsolve::krylov {
namespace local_chebyshev {
namespace {

constexpr std::int64_t rows_at_once = 1024;

/// Rows from `begin` to `end`.
template <Scalar T>
LocalChebyshev part_of(LocalChebyshev call, std::int64_t begin, std::int64_t end) {
  call.rows = end - begin;
  call.product = static_cast<const T*>(call.product) + begin;
  for (void** const vector : {&call.residual, &call.direction, &call.sum}) {
    *vector = static_cast<T*>(*vector) + begin;
  }
  if (call.diagonal != nullptr) {
    call.diagonal = static_cast<const T*>(call.diagonal) + begin;
    call.scaled = static_cast<T*>(call.scaled) + begin;
  }
  return call;
}

template <Scalar T>
void step(const runtime::KrylovKernels<T>& kernels, runtime::Queue& queue,
          const LocalChebyshev& call) {
  using Real = RealOf<T>;
  const auto view = [&](void* data) { return MatrixView<T>(static_cast<T*>(data), call.rows, 1); };
  const MatrixView<const T> product(static_cast<const T*>(call.product), call.rows, 1);
  const MatrixView<T> residual = view(call.residual);
  const MatrixView<T> direction = view(call.direction);
  const MatrixView<T> sum = view(call.sum);
  const auto combine = [&](Real a, MatrixView<const T> x, Real b, MatrixView<T> y) {
    kernels.combine(queue, a, x, b, y, call.zero);
  };
  const auto scaled_residual = [&]() -> MatrixView<const T> {
    if (call.diagonal == nullptr) {
      return residual;
    }
    kernels.divide_rows(queue, {static_cast<const T*>(call.diagonal), call.rows, 1}, residual,
                        view(call.scaled), call.zero);
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

}  // namespace
}  // namespace local_chebyshev

void enqueue(const runtime::KernelSource& device, runtime::Queue& queue,
             const LocalChebyshev& call) {
  with_dtype(call.dtype, [&]<class T>() {
    local_chebyshev::step<T>(device.kernels<runtime::KrylovKernels<T>>(), queue, call);
  });
}

void run_on_host(const LocalChebyshev& call, runtime::host::SpareThreads* spare) {
  runtime::host::in_caller(
      spare, call.rows, runtime::host::RowPieces::least_rows,
      [&](const runtime::KernelSource& device, runtime::Queue& queue, std::int64_t begin,
          std::int64_t end) {
        with_dtype(call.dtype, [&]<class T>() {
          for (std::int64_t row = begin; row < end; row += local_chebyshev::rows_at_once) {
            enqueue(device, queue,
                    local_chebyshev::part_of<T>(
                        call, row, std::min(row + local_chebyshev::rows_at_once, end)));
          }
        });
      });
}

}  // namespace shardsolve::krylov
