#include "dense/cholesky/certified_solve.hpp"

#include "core/each_dtype.hpp"
#include "dense/cholesky/triangular_solve.hpp"
#include "dense/shared/hermitian_multiply.hpp"
#include "dense/shared/right_hand_sides.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

namespace shardsolve::dense::cholesky {
namespace {

/// Memory for some columns of X and B, scaled, and of their residuals.
template <Scalar T>
struct Residuals {
  MatrixView<T> x;
  MatrixView<T> b;
  MatrixView<T> r;

  /// `columns`: the most at a time.
  Residuals(mesh::Rank& rank, std::int64_t rows, std::int64_t columns)
      : x(rank.workspace<T>(rows, columns)),
        b(rank.workspace<T>(rows, columns)),
        r(rank.workspace<T>(rows, columns)) {}
};

/// ||b - A x|| / (||A|| ||x|| + ||b||), in the infinity norm, of each column of `x` and `b`.
template <Scalar T>
std::vector<double> backward_errors(mesh::Rank& rank, const FactorPart<T>& factor,
                                    HermitianMultiply<T>& multiply, const Residuals<T>& memory,
                                    MatrixView<const T> x, MatrixView<const T> b,
                                    const double* x_maxima, const double* b_maxima) {
  const std::int64_t count = x.columns();
  const MatrixView<T> some_x = memory.x.columns_from(0, count);
  const MatrixView<T> some_b = memory.b.columns_from(0, count);
  const MatrixView<T> r = memory.r.columns_from(0, count);
  rank.kernels<T>().copy(rank.update(), x, some_x);
  rank.kernels<T>().copy(rank.update(), b, some_b);
  std::vector<int> exponents;
  for (std::int64_t j = 0; j < count; ++j) {
    exponents.push_back(residual_exponent<T>(factor.norm, x_maxima[j], b_maxima[j]));
  }
  scale_columns(rank, some_x, exponents);
  scale_columns(rank, some_b, exponents);
  // r = A x - b
  multiply.residual(some_x, some_b, r);
  const std::vector<double> r_maxima = column_maxima<T>(rank, r);
  std::vector<double> errors;
  for (std::int64_t j = 0; j < count; ++j) {
    const int exponent = exponents[static_cast<std::size_t>(j)];
    const Scaled size = factor.norm * Scaled{x_maxima[j], exponent} + Scaled{b_maxima[j], exponent};
    errors.push_back(ratio(Scaled{r_maxima[static_cast<std::size_t>(j)], 0}, size));
  }
  return errors;
}

/// The products with A that certify a solve, and their memory.
template <Scalar T>
class Certificate {
 public:
  Certificate(mesh::Rank& rank, const FactorPart<T>& factor, std::int64_t columns)
      : rank_(rank),
        factor_(factor),
        width_(std::min(factor.layout.tile(), columns)),
        exact_(rank, factor.layout, factor.slab, factor.diagonal, 1),
        memory_(rank, factor.slab.columns(), width_),
        before_(rank.workspace<T>(factor.slab.columns(), 1)) {
    if (columns > 1) {
      quick_.emplace(rank, factor.layout, factor.slab, factor.diagonal, width_);
    }
  }

  /// The largest backward error of the columns. Of several columns, quick products find the worst;
  /// an exact product gives its error.
  double backward_error(MatrixView<const T> x, MatrixView<const T> b,
                        const std::vector<double>& x_maxima, const std::vector<double>& b_maxima) {
    if (x.columns() == 0) {
      return 0.0;
    }
    std::int64_t worst = 0;
    double error = -1.0;
    for (std::int64_t first = 0; quick_ && first < x.columns(); first += width_) {
      const std::int64_t count = std::min(width_, x.columns() - first);
      const std::vector<double> errors = errors_of(*quick_, x, b, first, count, x_maxima, b_maxima);
      for (std::int64_t j = 0; j < count; ++j) {
        if (!std::isnan(error) && !(errors[static_cast<std::size_t>(j)] <= error)) {
          error = errors[static_cast<std::size_t>(j)];
          worst = first + j;
        }
      }
    }
    return errors_of(exact_, x, b, worst, 1, x_maxima, b_maxima).front();
  }

  /// One step of refinement of `x`, which has one column. Called after backward_error(), which gave
  /// `error` and left the residual, as exact as the refinement needs it. Keeps the new x if its
  /// error is smaller. Returns the error of the x that is kept.
  double refine(TriangularSolve<T>& solve, MatrixView<T> x, MatrixView<const T> b, double error,
                double x_max, double b_max) {
    const auto& kernels = rank_.kernels<T>();
    const int exponent = residual_exponent<T>(factor_.norm, x_max, b_max);
    kernels.copy(rank_.update(), x, before_);
    // x -= A^-1 (A x - b)
    const MatrixView<T> change = memory_.r.columns_from(0, 1);
    solve.run(change);
    scale_columns(rank_, change, {-exponent});
    kernels.add(rank_.update(), T{-1}, change, x);
    const std::vector<double> maxima = column_maxima<T>(rank_, x);
    if (all_finite(maxima)) {
      const double refined = errors_of(exact_, x, b, 0, 1, maxima, {b_max}).front();
      if (refined < error) {
        return refined;
      }
    }
    kernels.copy(rank_.update(), before_, x);
    return error;
  }

 private:
  std::vector<double> errors_of(HermitianMultiply<T>& multiply, MatrixView<const T> x,
                                MatrixView<const T> b, std::int64_t first, std::int64_t count,
                                const std::vector<double>& x_maxima,
                                const std::vector<double>& b_maxima) {
    return backward_errors<T>(rank_, factor_, multiply, memory_, x.columns_from(first, count),
                              b.columns_from(first, count), x_maxima.data() + first,
                              b_maxima.data() + first);
  }

  mesh::Rank& rank_;
  const FactorPart<T>& factor_;
  std::int64_t width_;
  HermitianMultiply<T> exact_;
  std::optional<HermitianMultiply<T>> quick_;
  Residuals<T> memory_;
  MatrixView<T> before_;  // a column of X
};

}  // namespace

template <Scalar T>
Outcome certified_solve(mesh::Rank& rank, const FactorPart<T>& factor, MatrixView<T> b) {
  const CheckedSides checked = check_right_hand_sides<T>(rank, factor.layout, b);
  Outcome outcome = checked.outcome;
  if (!outcome.ok()) {
    return outcome;
  }
  const std::vector<double>& b_maxima = checked.maxima;
  const MatrixView<T> given = rank.workspace<T>(b.rows(), b.columns());
  rank.kernels<T>().copy(rank.update(), b, given);
  TriangularSolve<T> triangular_solve(rank, factor.layout, factor.slab, b.columns());
  // Made before the solve: if memory is short, b is still there.
  Certificate<T> certificate(rank, factor, b.columns());
  triangular_solve.run(b);

  std::vector<double> x_maxima = column_maxima<T>(rank, b);
  if (!all_finite(x_maxima)) {
    // Inside a solve numbers may be larger than both b and x.
    std::vector<int> exponents = exponents_of_second_try<T>(b_maxima, x_maxima);
    rank.kernels<T>().copy(rank.update(), given, b);
    scale_columns(rank, b, exponents);
    triangular_solve.run(b);
    std::transform(exponents.begin(), exponents.end(), exponents.begin(), std::negate<>());
    scale_columns(rank, b, exponents);
    x_maxima = column_maxima<T>(rank, b);
  }
  if (!all_finite(x_maxima)) {
    outcome.status = Status::overflow;
    return outcome;
  }
  double error = certificate.backward_error(b, given, x_maxima, b_maxima);
  if (b.columns() == 1 && error > refined_from * unit_roundoff<T>) {
    error = certificate.refine(triangular_solve, b, given, error, x_maxima[0], b_maxima[0]);
  }
  outcome.backward_error = error;
  if (!(error <= given_up_from * unit_roundoff<T>)) {
    outcome.status = Status::inaccurate;  // x is below the range, in part or as a whole
  }
  return outcome;
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template Outcome certified_solve(mesh::Rank&, const FactorPart<T>&, MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::cholesky
