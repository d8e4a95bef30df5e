// A = F F^H with F = P^T L P, as P A P^T = L L^H and P P^T = I. So F has the rows of A, where they
// lie, and is lower triangular in elimination order: its solves are the two sweeps of a solve.

#include "dense/cholesky/half.hpp"

#include "core/each_dtype.hpp"
#include "dense/cholesky/half_product.hpp"
#include "dense/cholesky/triangular_solve.hpp"

#include <algorithm>
#include <complex>

namespace shardsolve::dense::cholesky {
namespace {

/// Calls `body` with so many columns of `b` at a time.
template <Scalar T, class Body>
void by_columns(mesh::Rank& rank, MatrixView<T> b, std::int64_t width, Body body) {
  for (std::int64_t first = 0; first < b.columns(); first += width) {
    rank.report("half", static_cast<double>(first) / static_cast<double>(b.columns()));
    body(b.columns_from(first, std::min(width, b.columns() - first)));
  }
}

}  // namespace

template <Scalar T>
void apply_half(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab, Half half,
                MatrixView<T> b) {
  const std::int64_t width = std::min(layout.tile(), b.columns());
  if (half == Half::solve || half == Half::solve_adjoint) {
    HalfSolve<T> solve(rank, layout, slab, width, half);
    by_columns(rank, b, width, [&](MatrixView<T> some) { solve.run(some); });
  } else {
    HalfProduct<T> product(rank, layout, slab, width);
    by_columns(rank, b, width, [&](MatrixView<T> some) {
      half == Half::multiply ? product.run(some) : product.run_adjoint(some);
    });
  }
}

#define SHARDSOLVE_INSTANTIATE(T)                                                     \
  template void apply_half(mesh::Rank&, const SlabLayout&, MatrixView<const T>, Half, \
                           MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::cholesky
