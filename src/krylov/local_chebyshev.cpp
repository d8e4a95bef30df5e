#include "krylov/local_chebyshev.hpp"

#include "core/each_dtype.hpp"
#include "runtime/host/in_caller.hpp"
#include "runtime/host/krylov_kernels.hpp"
#include "runtime/host/krylov_program.hpp"

#include <algorithm>

namespace shardsolve::krylov {
namespace local_chebyshev {
namespace {

/// Rows that are in the cache from one of a step's updates to the next.
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
void run(const LocalChebyshev& call) {
  const runtime::host::HostKrylovKernels<T> kernels;
  runtime::host::in_caller([&](runtime::Queue& queue) {
    for (std::int64_t begin = 0; begin < call.rows; begin += rows_at_once) {
      const std::int64_t end = std::min(begin + rows_at_once, call.rows);
      enqueue<T>(
          part_of<T>(call, begin, end),
          [&](RealOf<T> a, MatrixView<const T> x, RealOf<T> b, MatrixView<T> y) {
            kernels.combine(queue, a, x, b, y, call.zero);
          },
          [&](MatrixView<const T> diagonal, MatrixView<const T> x, MatrixView<T> y) {
            kernels.divide_rows(queue, diagonal, x, y, call.zero);
          });
    }
  });
}

}  // namespace
}  // namespace local_chebyshev

void run_on_host(const LocalChebyshev& call, runtime::host::SpareThreads* spare) {
  const std::int64_t pieces =
      std::max<std::int64_t>(call.rows / runtime::host::RowPieces::least_rows, 1);
  runtime::host::in_pieces(spare, pieces, [&](std::int64_t piece) {
    with_dtype(call.dtype, [&]<class T>() {
      local_chebyshev::run<T>(local_chebyshev::part_of<T>(call, piece * call.rows / pieces,
                                                          (piece + 1) * call.rows / pieces));
    });
  });
}

}  // namespace shardsolve::krylov
