#include "dense/lu/by_qr.hpp"

#include "core/each_dtype.hpp"
#include "dense/qr/plan.hpp"
#include "dense/qr/program.hpp"
#include "dense/qr/wide_solve.hpp"

#include <shardsolve/outcome.hpp>
#include <shardsolve/plan.hpp>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <utility>

namespace shardsolve::dense::lu {
namespace {

using runtime::Op;

template <Scalar T>
void conjugate_all(std::vector<T>& values) {
  if constexpr (is_complex<T>) {
    std::transform(values.begin(), values.end(), values.begin(),
                   [](T value) { return std::conj(value); });
  }
}

}  // namespace

template <Scalar T>
FoundByQr<T> solve_by_qr(mesh::Rank& rank, const FactorPart<T>& factor, Op op,
                         MatrixView<const T> b) {
  const std::int64_t n = factor.layout.size();
  const std::int64_t own = factor.matrix.columns();
  // The slab has columns of A, so these are rows of A^H.
  MatrixView<T> rows = rank.workspace<T>(own, n);
  rank.kernels<T>().conjugate_transpose(rank.update(), factor.matrix, rows);
  if (op == Op::none) {  // of A
    rows = qr::adjoint_rows<T>(rank, factor.layout, rows, factor.layout, 0);
  }
  // A^T X = B is A^H conj(X) = conj(B)
  const bool is_conjugate = op == Op::transpose;
  const MatrixView<T> sides = rank.workspace<T>(own, b.columns());
  rank.kernels<T>().copy(rank.update(), b, sides);
  if (is_complex<T> && is_conjugate && !sides.empty()) {
    std::vector<T> values = rank.fetch(rank.update(), sides.data(), own * b.columns());
    conjugate_all(values);
    rank.update().copy(sides.data(), values.data(), values.size() * sizeof(T));
    rank.update().synchronize();  // from here on `values` may go
  }
  LeastSquares<T> found = qr::solve_rows<T>(rank, factor.layout, rows, sides, {});
  FoundByQr<T> mine{.rcond = found.outcome.rcond.value_or(0.0)};
  if (class_of(found.outcome.status) == StatusClass::answered) {
    mine.x = std::move(found.x);
    if (is_conjugate) {
      conjugate_all(mine.x);
    }
  }
  return mine;
}

std::int64_t by_qr_bytes(const SlabLayout& layout, Dtype dtype, std::int64_t columns) {
  const Plan plan = qr::plan_at_once(layout, dtype, layout.size(), columns);
  // rows of A and of A^H, and what crosses the ranks
  return plan.workspace_bytes + 4 * plan.matrix_bytes + plan.right_hand_side_bytes;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                   \
  template FoundByQr<T> solve_by_qr(mesh::Rank&, const FactorPart<T>&, runtime::Op, \
                                    MatrixView<const T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu
