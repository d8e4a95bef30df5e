#include "dense/lu/small.hpp"

#include "core/compensated_sum.hpp"
#include "core/each_dtype.hpp"
#include "dense/lu/certified_solve.hpp"
#include "dense/shared/right_hand_sides.hpp"
#include "runtime/host/conjugate.hpp"
#include "runtime/host/general_multiply.hpp"
#include "runtime/host/panel_lu.hpp"
#include "runtime/host/twofold.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace shardsolve::dense::lu {
namespace {

using runtime::Op;
using runtime::host::conjugate;

/// Where nobody has to scale, whatever the dtype.
constexpr double smallest_norm = 0x1p-60;
constexpr double largest_norm = 0x1p+60;

bool is_in_range(double norm) { return norm >= smallest_norm && norm <= largest_norm; }

/// The largest |x_i|; not finite if an entry is not.
template <Scalar T>
double largest_of(const T* x, std::int64_t n) {
  double largest = 0.0;
  for (std::int64_t i = 0; i < n && !std::isnan(largest); ++i) {
    const double size = std::abs(x[i]);
    largest = largest >= size ? largest : size;  // written so that a NaN is taken
  }
  return largest;
}

/// <column, x> of `n` entries, the column conjugated; four sums side by side.
template <Scalar T>
T conjugate_dot(const T* column, const T* x, std::int64_t n) {
  constexpr std::int64_t lanes = 4;
  T sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      sums[lane] += conjugate(column[i + lane]) * x[i + lane];
    }
  }
  for (; i < n; ++i) {
    sums[0] += conjugate(column[i]) * x[i];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Solves for one column with P A = L U. A BLAS takes as long to get ready as this does for few
/// rows.
template <Scalar T>
class SmallSolve {
 public:
  SmallSolve(Op op, MatrixView<const T> slab, const std::int32_t* rows)
      : op_(op), slab_(slab), rows_(rows), moved_(static_cast<std::size_t>(slab.columns())) {}

  /// x := op(A)^-1 x.
  void run(T* x) {
    const std::int64_t n = slab_.columns();
    if (op_ == Op::none) {  // L U x = P b
      for (std::int64_t i = 0; i < n; ++i) {
        moved_[static_cast<std::size_t>(i)] = x[rows_[i]];
      }
      std::copy(moved_.begin(), moved_.end(), x);
      eliminate(x);
      return;
    }
    // U^H L^H P x = b
    for (std::int64_t j = 0; j < n; ++j) {
      x[j] = (x[j] - conjugate_dot(&slab_(0, j), x, j)) / conjugate(slab_(j, j));
    }
    for (std::int64_t j = n - 1; j >= 0; --j) {
      x[j] -= conjugate_dot(&slab_(0, j) + j + 1, x + j + 1, n - j - 1);
    }
    std::copy_n(x, n, moved_.begin());
    for (std::int64_t i = 0; i < n; ++i) {
      x[rows_[i]] = moved_[static_cast<std::size_t>(i)];
    }
  }

 private:
  void eliminate(T* x) const {
    const std::int64_t n = slab_.columns();
    for (std::int64_t j = 0; j < n; ++j) {
      const T* const column = &slab_(0, j);
      for (std::int64_t i = j + 1; i < n; ++i) {
        x[i] -= column[i] * x[j];
      }
    }
    for (std::int64_t j = n - 1; j >= 0; --j) {
      const T* const column = &slab_(0, j);
      x[j] /= column[j];
      for (std::int64_t i = 0; i < j; ++i) {
        x[i] -= column[i] * x[j];
      }
    }
  }

  Op op_;
  MatrixView<const T> slab_;
  const std::int32_t* rows_;
  std::vector<T> moved_;
};

/// Backward errors, over the unit roundoff.
struct SmallErrors {
  double by_norm = 0.0;
  double by_components = 0.0;

  bool are_those_of_rounding() const {
    return by_norm <= refined_from && by_components <= refined_from_by_components;
  }
  /// As CertifiedSolve has it.
  bool better_than(const SmallErrors& other) const {
    return by_norm < other.by_norm ||
           (by_norm <= refined_from && by_components < other.by_components);
  }
};

/// The backward errors of a column, and its residual.
template <Scalar T>
class SmallCertificate {
 public:
  SmallCertificate(Op op, MatrixView<const T> a, Scaled norm)
      : op_(op),
        a_(a),
        norm_(norm),
        product_(static_cast<std::size_t>(2 * a.columns())),
        sizes_(static_cast<std::size_t>(a.columns())) {}

  /// Nothing if x or b is not finite, or products leave the range.
  std::optional<SmallErrors> errors(const T* x, const T* b) {
    const std::int64_t n = a_.columns();
    const double b_max = largest_of(b, n);
    const double x_max = largest_of(x, n);
    if (!std::isfinite(b_max) || !std::isfinite(x_max) ||
        residual_exponent<T>(norm_, x_max, b_max) != 0) {
      return std::nullopt;
    }
    const MatrixView<const T> column(x, n, 1);
    const MatrixView<T> product(product_.data(), n, 2);
    const MatrixView<double> sizes(sizes_.data(), n, 1);
    if (op_ == Op::none) {
      runtime::host::multiply_wide<T>(a_, column, product, sizes);
    } else {
      runtime::host::multiply_transposed_wide<T>(op_, a_, column, product, sizes);
    }
    // Below this the residual, which may be subnormal, says nothing beside its terms.
    const double least = 16 * double{std::numeric_limits<RealOf<T>>::min()};
    SmallErrors found;
    double most = 0.0;
    for (std::int64_t i = 0; i < n; ++i) {
      // b - A x
      runtime::host::Twofold<T> sum{-product(i, 0), -product(i, 1)};
      sum.add(b[i]);
      product(i, 0) = sum.high + sum.low;
      const double r = std::abs(product(i, 0));
      const double size = sizes(i, 0) + double{std::abs(b[i])};
      most = most >= r ? most : r;
      if (size >= least) {
        found.by_components = std::max(found.by_components, r / size);
      }
    }
    constexpr double u = unit_roundoff<T>;
    found.by_norm = ratio(Scaled{most, 0}, norm_ * Scaled{x_max, 0} + Scaled{b_max, 0}) / u;
    found.by_components /= u;
    return std::isfinite(found.by_norm) ? std::optional(found) : std::nullopt;
  }
  /// b - op(A) x of the last x.
  T* residual() { return product_.data(); }

 private:
  Op op_;
  MatrixView<const T> a_;
  Scaled norm_;  // of op(A), in the infinity norm
  std::vector<T> product_;
  std::vector<double> sizes_;
};

}  // namespace

template <Scalar T>
std::optional<SmallFactor<T>> factor_small(MatrixView<const T> a, MatrixView<T> slab,
                                           std::int32_t* rows) {
  const std::int64_t n = a.columns();
  std::vector<double> sums(static_cast<std::size_t>(n));
  std::vector<double> unused(static_cast<std::size_t>(n));
  runtime::host::row_sums<T>(1.0, a, sums.data(), unused.data());
  const double inf_norm = *std::max_element(sums.begin(), sums.end());
  double one_norm = 0.0;
  double largest = 0.0;
  for (std::int64_t j = 0; j < n; ++j) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double size = std::abs(a(i, j));
      sum += size;
      largest = std::max(largest, size);
    }
    if (!(sum <= largest_norm)) {  // of NaN, too
      return std::nullopt;
    }
    one_norm = std::max(one_norm, sum);
  }
  if (!is_in_range(one_norm) || !is_in_range(inf_norm)) {
    return std::nullopt;
  }
  for (std::int64_t j = 0; j < n; ++j) {
    std::copy_n(&a(0, j), n, &slab(0, j));
  }
  std::vector<std::int64_t> places(static_cast<std::size_t>(n));
  if (runtime::host::factor_panel<T>(0, slab, places.data()) != 0) {
    return std::nullopt;
  }
  SmallFactor<T> made{.one_norm = Scaled{one_norm, 0}.normalised(),
                      .inf_norm = Scaled{inf_norm, 0}.normalised()};
  std::iota(rows, rows + n, 0);
  core::CompensatedSum logs;
  std::complex<double> sign = 1.0;
  double most = 0.0;
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t place = places[static_cast<std::size_t>(j)];
    std::swap(rows[j], rows[place]);
    const std::complex<double> pivot = slab(j, j);
    const double modulus = std::abs(pivot);
    if (!(modulus >= double{std::numeric_limits<RealOf<T>>::min()})) {
      return std::nullopt;
    }
    logs.add(std::log(modulus));
    sign *= (place == j ? 1.0 : -1.0) * pivot / modulus;
    for (std::int64_t i = 0; i <= j; ++i) {
      most = std::max(most, double{std::abs(slab(i, j))});
    }
  }
  made.growth = most / largest;
  if (!(made.growth <= largest_growth<T>())) {
    return std::nullopt;
  }
  if constexpr (is_complex<T>) {
    made.sign = static_cast<T>(sign);
  } else {
    made.sign = static_cast<T>(sign.real());
  }
  made.log_modulus = logs.value();
  return made;
}

template <Scalar T>
std::optional<BackwardErrors> solve_small(Op op, MatrixView<const T> slab, MatrixView<const T> a,
                                          const std::int32_t* rows, const SmallFactor<T>& factor,
                                          MatrixView<const T> b, MatrixView<T> x) {
  if (!(factor.growth <= largest_growth<T>())) {
    return std::nullopt;
  }
  const std::int64_t n = b.rows();
  SmallSolve<T> solve(op, slab, rows);
  SmallCertificate<T> certificate(op, a, op == Op::none ? factor.inf_norm : factor.one_norm);
  std::vector<T> before(static_cast<std::size_t>(n));
  BackwardErrors worst;
  for (std::int64_t j = 0; j < b.columns(); ++j) {
    T* const column = &x(0, j);
    std::copy_n(&b(0, j), n, column);
    solve.run(column);
    std::optional<SmallErrors> errors = certificate.errors(column, &b(0, j));
    for (int step = 0; step < max_refinements && errors && !errors->are_those_of_rounding();
         ++step) {
      std::copy_n(column, n, before.begin());
      T* const change = certificate.residual();
      solve.run(change);
      for (std::int64_t i = 0; i < n; ++i) {
        column[i] += change[i];
      }
      const std::optional<SmallErrors> refined = certificate.errors(column, &b(0, j));
      if (!refined || !refined->better_than(*errors)) {
        std::copy(before.begin(), before.end(), column);
        break;
      }
      errors = refined;
    }
    if (!errors || !(errors->by_norm <= given_up_from)) {
      return std::nullopt;
    }
    worst.by_norm = std::max(worst.by_norm, errors->by_norm * unit_roundoff<T>);
    worst.by_components = std::max(worst.by_components, errors->by_components * unit_roundoff<T>);
  }
  return worst;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                  \
  template std::optional<SmallFactor<T>> factor_small(MatrixView<const T>, MatrixView<T>,          \
                                                      std::int32_t*);                              \
  template std::optional<BackwardErrors> solve_small(Op, MatrixView<const T>, MatrixView<const T>, \
                                                     const std::int32_t*, const SmallFactor<T>&,   \
                                                     MatrixView<const T>, MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu
