#include "tests/support/gates.hpp"

#include "core/each_dtype.hpp"
#include "reference/matmul.hpp"
#include "tests/support/lapack.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace shardsolve::testing {
namespace {

using reference::conjugate_transpose;
using reference::dot;
using reference::inf_norm;
using reference::larger;
using reference::one_norm;
using reference::transpose;
using reference::Wide;
using reference::widen;
using reference::WideReal;

/// residual / (scale u), and 0 where nothing was asked and nothing is wrong (n = 0, b = x = 0).
template <Scalar T>
double ratio_of(WideReal<T> residual, WideReal<T> scale) {
  if (residual == 0 && scale == 0) {
    return 0.0;
  }
  return static_cast<double>(residual / scale / WideReal<T>{unit_roundoff<T>});
}

template <Scalar T>
WideReal<T> largest_entry(const DenseMatrix<T>& a, std::int64_t column) {
  WideReal<T> largest = 0;
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    largest = larger(largest, std::abs(widen(a(i, column))));
  }
  return largest;
}

template <class Real>
Real largest_of(const std::vector<Real>& values) {
  Real largest = 0;
  for (const Real value : values) {
    largest = larger(largest, value);
  }
  return largest;
}

/// A result of the wrong shape fails every gate, without an exception that hides which test asked.
constexpr double wrong_shape = std::numeric_limits<double>::quiet_NaN();

template <Scalar T>
bool has_shape(const DenseMatrix<T>& a, std::int64_t rows, std::int64_t columns) {
  return a.rows() == rows && a.columns() == columns;
}

::testing::AssertionResult judge(double ratio, double gate, std::optional<double> lapack_ratio) {
  constexpr double times_lapack = 4.0;
  const double peer_limit = times_lapack * std::max(1.0, lapack_ratio.value_or(0.0));
  const bool passed = ratio < gate && (!lapack_ratio || ratio <= peer_limit);
  auto verdict = passed ? ::testing::AssertionSuccess() : ::testing::AssertionFailure();
  verdict << "residual is " << ratio << " u; the gate is below " << gate;
  if (lapack_ratio) {
    verdict << " and at most " << peer_limit << " (LAPACK has " << *lapack_ratio << " u)";
  }
  return verdict;
}

/// A + shift I.
template <Scalar T>
DenseMatrix<T> shifted(DenseMatrix<T> a, WideReal<T> shift) {
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    a(i, i) = reference::narrow<T>(widen(a(i, i)) + shift);
  }
  return a;
}

}  // namespace

template <Scalar T>
double solve_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& x, const DenseMatrix<T>& b) {
  const std::int64_t n = a.rows();
  if (!has_shape(a, n, n) || !has_shape(b, n, b.columns()) || !has_shape(x, n, b.columns())) {
    return wrong_shape;
  }
  const DenseMatrix<T> rows = transpose(a);  // row i of A, contiguous
  const WideReal<T> norm = inf_norm(a);
  double ratio = 0.0;
  for (std::int64_t j = 0; j < b.columns(); ++j) {
    WideReal<T> residual = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const Wide<T> ax = dot(rows.data() + i * n, x.data() + j * n, n);
      residual = larger(residual, std::abs(widen(b(i, j)) - ax));
    }
    const WideReal<T> scale = norm * largest_entry(x, j) + largest_entry(b, j);
    ratio = larger(ratio, ratio_of<T>(residual, scale));
  }
  return ratio;
}

template <Scalar T>
double factor_ratio(const DenseMatrix<T>& pap, const DenseMatrix<T>& l) {
  const std::int64_t n = pap.rows();
  if (!has_shape(pap, n, n) || !has_shape(l, n, n)) {
    return wrong_shape;
  }
  const DenseMatrix<T> rows = transpose(l);  // row i of L, contiguous
  const DenseMatrix<T> conjugate_rows = conjugate_transpose(l);
  // The column sums of a Hermitian matrix, from its lower triangle.
  std::vector<WideReal<T>> difference(static_cast<std::size_t>(n));
  std::vector<WideReal<T>> original(static_cast<std::size_t>(n));
  const auto add = [](std::vector<WideReal<T>>& sums, std::int64_t i, std::int64_t j, Wide<T> a) {
    sums[static_cast<std::size_t>(j)] += std::abs(a);
    if (i != j) {
      sums[static_cast<std::size_t>(i)] += std::abs(a);
    }
  };
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = j; i < n; ++i) {
      const Wide<T> llh = dot(rows.data() + i * n, conjugate_rows.data() + j * n, j + 1);
      add(difference, i, j, widen(pap(i, j)) - llh);
      add(original, i, j, widen(pap(i, j)));
    }
  }
  return ratio_of<T>(largest_of(difference), largest_of(original));
}

template <Scalar T>
double inverse_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& x) {
  const std::int64_t n = a.rows();
  if (!has_shape(a, n, n) || !has_shape(x, n, n)) {
    return wrong_shape;
  }
  const DenseMatrix<T> rows = transpose(a);  // row i of A, contiguous
  WideReal<T> residual = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    WideReal<T> column_sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const WideReal<T> one = i == j ? 1 : 0;
      column_sum += std::abs(one - dot(rows.data() + i * n, x.data() + j * n, n));
    }
    residual = larger(residual, column_sum);
  }
  return ratio_of<T>(residual, one_norm(a) * one_norm(x));
}

template <Scalar T>
::testing::AssertionResult solves(const DenseMatrix<T>& a, const DenseMatrix<T>& x,
                                  const DenseMatrix<T>& b) {
  const LapackResult<T> peer = lapack_solve(a, b);
  return judge(solve_ratio(a, x, b), solve_gate,
               peer.ok() ? std::optional(solve_ratio(a, peer.matrix, b)) : std::nullopt);
}

template <Scalar T>
::testing::AssertionResult factors(const DenseMatrix<T>& pap, const DenseMatrix<T>& l) {
  const LapackResult<T> peer = lapack_factor(pap);
  return judge(factor_ratio(pap, l), factor_gate,
               peer.ok() ? std::optional(factor_ratio(pap, peer.matrix)) : std::nullopt);
}

template <Scalar T>
::testing::AssertionResult inverts(const DenseMatrix<T>& a, const DenseMatrix<T>& x) {
  const LapackResult<T> peer = lapack_inverse(a);
  return judge(inverse_ratio(a, x), inverse_gate,
               peer.ok() ? std::optional(inverse_ratio(a, peer.matrix)) : std::nullopt);
}

template <Scalar T>
::testing::AssertionResult verdict_is_explained(const DenseMatrix<T>& a, bool positive_definite) {
  const WideReal<T> shift = 4 * WideReal<T>{unit_roundoff<T>} * one_norm(a);
  if (!positive_definite && lapack_factor(shifted(a, -shift)).ok()) {
    return ::testing::AssertionFailure()
           << "called not positive definite, but LAPACK factors even A - 4 u ||A|| I";
  }
  if (positive_definite && !lapack_factor(shifted(a, shift)).ok()) {
    return ::testing::AssertionFailure()
           << "called positive definite, but LAPACK cannot factor even A + 4 u ||A|| I";
  }
  return ::testing::AssertionSuccess();
}

#define SHARDSOLVE_INSTANTIATE(T)                                                               \
  template double solve_ratio<T>(const DenseMatrix<T>&, const DenseMatrix<T>&,                  \
                                 const DenseMatrix<T>&);                                        \
  template double factor_ratio<T>(const DenseMatrix<T>&, const DenseMatrix<T>&);                \
  template double inverse_ratio<T>(const DenseMatrix<T>&, const DenseMatrix<T>&);               \
  template ::testing::AssertionResult solves<T>(const DenseMatrix<T>&, const DenseMatrix<T>&,   \
                                                const DenseMatrix<T>&);                         \
  template ::testing::AssertionResult factors<T>(const DenseMatrix<T>&, const DenseMatrix<T>&); \
  template ::testing::AssertionResult inverts<T>(const DenseMatrix<T>&, const DenseMatrix<T>&); \
  template ::testing::AssertionResult verdict_is_explained<T>(const DenseMatrix<T>&, bool);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::testing
