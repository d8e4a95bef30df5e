#include "dense/cholesky/small.hpp"

#include "core/compensated_sum.hpp"
#include "core/each_dtype.hpp"
#include "dense/cholesky/certified_solve.hpp"
#include "dense/shared/check_input.hpp"
#include "dense/shared/right_hand_sides.hpp"
#include "runtime/host/blas.hpp"
#include "runtime/host/conjugate.hpp"
#include "runtime/host/hermitian_multiply.hpp"
#include "runtime/host/inspect.hpp"
#include "runtime/host/twofold.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <vector>

namespace shardsolve::dense::cholesky {
namespace {

using runtime::Triangle;
using runtime::host::conjugate;
using runtime::host::blas::Blas;

/// Where sums of |a_ij|, their squares and products stay in range whatever the dtype: for numbers
/// elsewhere A is looked at again after scaling.
constexpr double smallest_norm = 0x1p-60;
constexpr double largest_norm = 0x1p+60;

/// ||A||_1 of a matrix that is finite, Hermitian as check_hermitian() has it, and not near the ends
/// of the range.
template <Scalar T>
std::optional<double> norm_of_hermitian(MatrixView<const T> a) {
  constexpr std::int64_t parts = is_complex<T> ? 2 : 1;
  const std::int64_t n = a.columns();
  std::vector<double> memory(static_cast<std::size_t>((2 + 2 * parts) * n));
  double* const weights = memory.data();
  double* const sums = weights + n;
  double* const probe = sums + n;
  double* const product = probe + parts * n;
  write_probe_weights(weights, n);
  runtime::host::inspect_columns<T>(a, 0, weights, 1.0, {sums, probe, product});
  const double limit = asymmetry_limit<T>(n);
  double norm = 0.0;
  for (std::int64_t j = 0; j < n; ++j) {
    double squares = 0.0;
    for (std::int64_t part = 0; part < parts; ++part) {
      const double difference = probe[parts * j + part] - product[parts * j + part];
      squares += difference * difference;
    }
    if (!(squares <= limit * sums[j] * limit * sums[j])) {  // of NaN, too
      return std::nullopt;
    }
    norm = std::max(norm, sums[j]);
  }
  return norm >= smallest_norm && norm <= largest_norm ? std::optional(norm) : std::nullopt;
}

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

/// A from what a factorisation leaves of it.
template <Scalar T>
void restore(MatrixView<T> a, const RealOf<T>* diagonal) {
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    a(j, j) = T(diagonal[j]);
    for (std::int64_t i = 0; i < j; ++i) {
      a(j, i) = conjugate(a(i, j));
    }
  }
}

/// x := L^-1 x for one column. A BLAS takes as long to get ready as this does for few rows.
template <Scalar T>
void solve_forward(MatrixView<const T> l, T* x) {
  const std::int64_t n = l.columns();
  for (std::int64_t j = 0; j < n; ++j) {
    const T* const column = &l(0, j);
    x[j] /= std::real(column[j]);
    for (std::int64_t i = j + 1; i < n; ++i) {
      x[i] -= column[i] * x[j];
    }
  }
}

/// x := L^-H x.
template <Scalar T>
void solve_backward(MatrixView<const T> l, T* x) {
  constexpr std::int64_t lanes = 4;  // sums side by side
  const std::int64_t n = l.columns();
  for (std::int64_t j = n - 1; j >= 0; --j) {
    const T* const column = &l(0, j);
    T sums[lanes] = {};
    std::int64_t i = j + 1;
    for (; i + lanes <= n; i += lanes) {
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        sums[lane] += conjugate(column[i + lane]) * x[i + lane];
      }
    }
    for (; i < n; ++i) {
      sums[0] += conjugate(column[i]) * x[i];
    }
    x[j] = (x[j] - ((sums[0] + sums[1]) + (sums[2] + sums[3]))) / std::real(column[j]);
  }
}

/// A x - b, the sums in twice the precision.
template <Scalar T>
class SmallResidual {
 public:
  SmallResidual(MatrixView<const T> slab, const RealOf<T>* diagonal) : n_(slab.columns()) {
    a_.slab = slab;
    a_.diagonal = diagonal;
    a_.ranks = 1;
    a_.begin[1] = n_;
    a_.tile = n_;
    product_.resize(static_cast<std::size_t>(2 * n_));
    sums_.resize(static_cast<std::size_t>(runtime::host::upper_part_sums<T>(a_)));
  }

  /// max |A x - b|.
  double largest(const T* x, const T* b) {
    runtime::host::multiply_upper_part<T>(a_, x, product_.data(), sums_.data());
    for (std::int64_t i = 0; i < n_; ++i) {
      runtime::host::Twofold<T> sum{product_[static_cast<std::size_t>(i)],
                                    product_[static_cast<std::size_t>(n_ + i)]};
      sum.add(-b[i]);
      product_[static_cast<std::size_t>(i)] = sum.high + sum.low;
    }
    return largest_of(product_.data(), n_);
  }
  /// A x - b of the last x.
  T* residual() { return product_.data(); }

 private:
  std::int64_t n_;
  runtime::UpperPart<T, RealOf<T>> a_;
  std::vector<T> product_;
  std::vector<double> sums_;
};

/// The backward error of a column, and a better one.
template <Scalar T>
class SmallCertificate {
 public:
  SmallCertificate(MatrixView<const T> slab, const RealOf<T>* diagonal, Scaled norm)
      : slab_(slab), norm_(norm), residual_(slab, diagonal) {}

  /// Nothing if x or b is not finite, or products leave the range.
  std::optional<double> backward_error(const T* x, const T* b) {
    const std::int64_t n = slab_.columns();
    const double b_max = largest_of(b, n);
    const double x_max = largest_of(x, n);
    if (!std::isfinite(b_max) || !std::isfinite(x_max) ||
        residual_exponent<T>(norm_, x_max, b_max) != 0) {
      return std::nullopt;
    }
    const Scaled size = norm_ * Scaled{x_max, 0} + Scaled{b_max, 0};
    const double error = ratio(Scaled{residual_.largest(x, b), 0}, size);
    return std::isfinite(error) ? std::optional(error) : std::nullopt;
  }

  /// One step of refinement, after backward_error() has given `error`. Keeps the x whose error is
  /// smaller, and returns that.
  std::optional<double> refine(T* x, const T* b, double error) {
    const std::int64_t n = slab_.columns();
    const std::vector<T> before(x, x + n);
    // x -= A^-1 (A x - b)
    T* const change = residual_.residual();
    solve_forward<T>(slab_, change);
    solve_backward<T>(slab_, change);
    for (std::int64_t i = 0; i < n; ++i) {
      x[i] -= change[i];
    }
    const std::optional<double> refined = backward_error(x, b);
    if (refined && *refined < error) {
      return refined;
    }
    std::copy(before.begin(), before.end(), x);
    return error;
  }

 private:
  MatrixView<const T> slab_;
  Scaled norm_;
  SmallResidual<T> residual_;
};

}  // namespace

template <Scalar T>
std::optional<SmallFactor> factor_small(MatrixView<T> a, RealOf<T>* diagonal) {
  const std::optional<double> norm = norm_of_hermitian<T>(a);
  if (!norm) {
    return std::nullopt;
  }
  const std::int64_t n = a.columns();
  for (std::int64_t j = 0; j < n; ++j) {
    diagonal[j] = std::real(a(j, j));
  }
  // A = L L^H
  if (Blas<T>::potrf(Triangle::lower, a) != 0) {
    restore(a, diagonal);
    return std::nullopt;
  }
  core::CompensatedSum logs;
  for (std::int64_t j = 0; j < n; ++j) {
    logs.add(std::log(double{std::real(a(j, j))}));
  }
  return SmallFactor{Scaled{*norm, 0}.normalised(), 2.0 * logs.value()};
}

template <Scalar T>
std::optional<double> solve_small(MatrixView<const T> slab, const RealOf<T>* diagonal, Scaled norm,
                                  MatrixView<const T> b, MatrixView<T> x) {
  const std::int64_t n = b.rows();
  const std::int64_t columns = b.columns();
  for (std::int64_t j = 0; j < columns; ++j) {
    std::copy_n(&b(0, j), n, &x(0, j));
    // L y = b, L^H x = y
    solve_forward<T>(slab, &x(0, j));
    solve_backward<T>(slab, &x(0, j));
  }
  SmallCertificate<T> certificate(slab, diagonal, norm);
  double worst = 0.0;
  for (std::int64_t j = 0; j < columns; ++j) {
    std::optional<double> error = certificate.backward_error(&x(0, j), &b(0, j));
    if (error && columns == 1 && *error > refined_from * unit_roundoff<T>) {
      error = certificate.refine(&x(0, j), &b(0, j), *error);
    }
    if (!error || *error > given_up_from * unit_roundoff<T>) {
      return std::nullopt;
    }
    worst = std::max(worst, *error);
  }
  return worst;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                           \
  template std::optional<SmallFactor> factor_small(MatrixView<T>, RealOf<T>*);              \
  template std::optional<double> solve_small(MatrixView<const T>, const RealOf<T>*, Scaled, \
                                             MatrixView<const T>, MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::cholesky
