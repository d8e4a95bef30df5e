#include "dense/lu/by_qr.hpp"

#include "core/each_dtype.hpp"
#include "dense/qr/plan.hpp"
#include "dense/qr/program.hpp"
#include "dense/qr/wide_solve.hpp"
#include "dense/shared/right_hand_sides.hpp"
#include "dense/shared/shape_of.hpp"
#include "programs/gather.hpp"

#include <shardsolve/outcome.hpp>
#include <shardsolve/plan.hpp>

#include <algorithm>
#include <cmath>
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

/// The rank's rows of A, or of A^H for the other two.
template <Scalar T>
MatrixView<T> rows_of(mesh::Rank& rank, const FactorPart<T>& factor, Op op) {
  // The slab has columns of A, so these are rows of A^H.
  MatrixView<T> rows = rank.workspace<T>(factor.matrix.columns(), factor.layout.size());
  rank.kernels<T>().conjugate_transpose(rank.update(), factor.matrix, rows);
  return op == Op::none ? qr::adjoint_rows<T>(rank, factor.layout, rows, factor.layout, 0) : rows;
}

template <Scalar T>
T scaled_by(T value, std::int64_t exponent) {
  const auto by = [&](RealOf<T> part) { return std::ldexp(part, static_cast<int>(exponent)); };
  if constexpr (is_complex<T>) {
    return {by(value.real()), by(value.imag())};
  } else {
    return by(value);
  }
}

}  // namespace

template <Scalar T>
FoundByQr<T> solve_by_qr(mesh::Rank& rank, const FactorPart<T>& factor, Op op,
                         MatrixView<const T> b) {
  const MatrixView<T> rows = rows_of<T>(rank, factor, op);
  const std::int64_t own = rows.rows();
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

template <Scalar T>
double forward_error_by_qr(mesh::Rank& rank, const FactorPart<T>& factor, Op op,
                           MatrixView<const T> x, double component_error) {
  constexpr std::int64_t none = -100000;
  const auto exponent = [](double size) -> std::int64_t {
    return size > 0.0 ? std::ilogb(size) : none;
  };
  std::vector<std::int64_t> shape;
  for (const double one : shape_of<T>(rank, x, column_maxima<T>(rank, x))) {
    shape.push_back(exponent(one));
  }
  shape = programs::gather_rows(rank, factor.layout, shape);
  const MatrixView<T> rows = rows_of<T>(rank, factor, op);
  const std::int64_t n = rows.columns();
  std::vector<T> a;
  if (!rows.empty()) {
    a = rank.fetch(rank.update(), rows.data(), rows.rows() * n);
  }
  const auto entry = [&](std::int64_t i, std::int64_t j) -> T& {
    return a[static_cast<std::size_t>(i + j * rows.rows())];
  };
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(rows.rows()), none);
  std::vector<std::int64_t> columns(static_cast<std::size_t>(n), none);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::int64_t term = exponent(std::abs(entry(static_cast<std::int64_t>(i), j)));
      sizes[i] = std::max(sizes[i], term + shape[static_cast<std::size_t>(j)]);
    }
  }
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::int64_t term = exponent(std::abs(entry(static_cast<std::int64_t>(i), j)));
      std::int64_t& column = columns[static_cast<std::size_t>(j)];
      column = std::max(column, term - sizes[i]);
    }
  }
  for (const auto& other : programs::gather_from_all(rank, columns)) {
    std::transform(columns.begin(), columns.end(), other.begin(), columns.begin(),
                   [](std::int64_t one, std::int64_t two) { return std::max(one, two); });
  }
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      T& one = entry(static_cast<std::int64_t>(i), j);
      one = scaled_by(one, -sizes[i] - columns[static_cast<std::size_t>(j)]);
    }
  }
  if (!a.empty()) {
    rank.update().copy(rows.data(), a.data(), a.size() * sizeof(T));
  }
  rank.update().synchronize();  // from here on `a` may go
  const MatrixView<T> no_sides = rank.workspace<T>(rows.rows(), 0);
  const double rcond =
      qr::solve_rows<T>(rank, factor.layout, rows, no_sides, {}).outcome.rcond.value_or(0.0);
  const std::int64_t most = -*std::min_element(columns.begin(), columns.end());
  return 2.0 * std::max(component_error, unit_roundoff<T>) / rcond *
         std::exp2(static_cast<double>(most));
}

std::int64_t by_qr_bytes(const SlabLayout& layout, Dtype dtype, std::int64_t columns) {
  const Plan plan = qr::plan_at_once(layout, dtype, layout.size(), columns);
  // rows of A and of A^H, and what crosses the ranks; again for the forward error
  return 2 * (plan.workspace_bytes + 4 * plan.matrix_bytes) + plan.right_hand_side_bytes;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                     \
  template FoundByQr<T> solve_by_qr(mesh::Rank&, const FactorPart<T>&, runtime::Op,   \
                                    MatrixView<const T>);                             \
  template double forward_error_by_qr(mesh::Rank&, const FactorPart<T>&, runtime::Op, \
                                      MatrixView<const T>, double);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu
