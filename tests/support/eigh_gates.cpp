#include "tests/support/eigh_gates.hpp"

#include "core/each_dtype.hpp"
#include "reference/matmul.hpp"
#include "tests/support/eigh_zoo.hpp"
#include "tests/support/lapack.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <type_traits>

namespace shardsolve::testing {
namespace {

using reference::conjugate_transpose;
using reference::dot;
using reference::larger;
using reference::Wide;
using reference::widen;
using reference::WideReal;

/// Of results of the wrong shape: no gate lets it through.
constexpr double no_ratio = std::numeric_limits<double>::quiet_NaN();

/// difference / (scale u); 0 where there is no difference, as for the zero matrix.
template <Scalar T>
double in_roundoffs(WideReal<T> difference, WideReal<T> scale) {
  return difference == 0 ? 0.0
                         : static_cast<double>(difference / scale / WideReal<T>{unit_roundoff<T>});
}

/// LAPACK's, of `a` with its entries as float64 or complex128.
template <Scalar T>
std::vector<double> float64_eigenvalues(const DenseMatrix<T>& a) {
  using Double = std::conditional_t<is_complex<T>, std::complex<double>, double>;
  DenseMatrix<Double> as_double(a.rows(), a.columns());
  std::copy(a.data(), a.data() + a.rows() * a.columns(), as_double.data());
  return lapack_eigh(as_double).values;
}

template <Scalar T>
bool is_tridiagonal(const DenseMatrix<T>& a) {
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      if (std::abs(i - j) > 1 && a(i, j) != T{}) {
        return false;
      }
    }
  }
  return true;
}

/// Adds what `ratio` is to `verdict`. Written so that NaN fails.
bool within(double ratio, double peer, std::string_view what, ::testing::AssertionResult& verdict) {
  constexpr double times_lapack = 4.0;
  const double limit = std::max(eigh_gate, times_lapack * peer);
  verdict << what << " is " << ratio << " u; the limit is " << limit << " (LAPACK has " << peer
          << " u); ";
  return ratio <= limit;
}

}  // namespace

template <Scalar T>
double eigh_residual_ratio(const DenseMatrix<T>& a, const Eigenpairs<T>& pairs) {
  const std::int64_t n = a.rows();
  const DenseMatrix<T>& z = pairs.vectors;
  if (a.columns() != n || z.rows() != n ||
      z.columns() != static_cast<std::int64_t>(pairs.values.size())) {
    return no_ratio;
  }
  const DenseMatrix<T> rows = reference::transpose(a);  // row i of A, contiguous
  WideReal<T> residual = 0;
  for (std::int64_t j = 0; j < z.columns(); ++j) {
    const WideReal<T> w = pairs.values[static_cast<std::size_t>(j)];
    WideReal<T> column_sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      column_sum += std::abs(dot(rows.data() + i * n, z.data() + j * n, n) - w * widen(z(i, j)));
    }
    residual = larger(residual, column_sum);
  }
  return in_roundoffs<T>(residual, reference::one_norm(a));
}

template <Scalar T>
double orthogonality_ratio(const DenseMatrix<T>& z) {
  const std::int64_t n = z.rows();
  const DenseMatrix<T> conjugates = conjugate_transpose(reference::transpose(z));
  WideReal<T> largest = 0;
  for (std::int64_t j = 0; j < z.columns(); ++j) {
    WideReal<T> column_sum = 0;
    for (std::int64_t i = 0; i < z.columns(); ++i) {
      const WideReal<T> one = i == j ? 1 : 0;
      column_sum += std::abs(dot(conjugates.data() + i * n, z.data() + j * n, n) - one);
    }
    largest = larger(largest, column_sum);
  }
  return in_roundoffs<T>(largest, 1);
}

template <Scalar T>
double eigenvalue_distance(const std::vector<RealOf<T>>& w, const std::vector<double>& other) {
  if (w.size() != other.size()) {
    return no_ratio;
  }
  WideReal<T> difference = 0;
  WideReal<T> norm = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    difference = larger(difference, std::abs(WideReal<T>{w[i]} - WideReal<T>{other[i]}));
    norm = larger(norm, std::abs(WideReal<T>{other[i]}));
  }
  return in_roundoffs<T>(difference, norm);
}

template <Scalar T>
::testing::AssertionResult diagonalises(const DenseMatrix<T>& a, const Eigenpairs<T>& pairs) {
  if (const auto values = has_eigenvalues(a, pairs.values); !values) {
    return values;
  }
  return has_eigenpairs(a, pairs);
}

template <Scalar T>
::testing::AssertionResult has_eigenpairs(const DenseMatrix<T>& a, const Eigenpairs<T>& pairs) {
  const std::int64_t n = a.rows();
  if (pairs.vectors.rows() != n || pairs.vectors.columns() != n) {
    return ::testing::AssertionFailure() << pairs.vectors.rows() << " x " << pairs.vectors.columns()
                                         << " elements of vectors; the matrix has " << n << " rows";
  }
  const DenseMatrix<T> full = is_tridiagonal(a) ? randomly_rotated(a) : a;
  const Eigenpairs<T> peer = lapack_eigh(full);
  auto said = ::testing::AssertionSuccess();
  const bool residual =
      within(eigh_residual_ratio(a, pairs), eigh_residual_ratio(full, peer), "residual", said);
  const bool orthogonality = within(orthogonality_ratio(pairs.vectors),
                                    orthogonality_ratio(peer.vectors), "orthogonality", said);
  return residual && orthogonality ? said : ::testing::AssertionFailure() << said.message();
}

template <Scalar T>
::testing::AssertionResult has_eigenvalues(const DenseMatrix<T>& a,
                                           const std::vector<RealOf<T>>& values) {
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    if (!(values[i] <= values[i + 1])) {
      return ::testing::AssertionFailure() << "eigenvalue " << i << " is " << values[i]
                                           << ", the next " << values[i + 1] << ": not ascending";
    }
  }
  const std::vector<double> peer = float64_eigenvalues(a);
  if (values.size() != peer.size()) {
    return ::testing::AssertionFailure()
           << values.size() << " eigenvalues; the matrix has " << peer.size();
  }
  double distance = eigenvalue_distance<T>(values, peer);
  if (distance > eigenvalue_gate && distance <= 2 * eigenvalue_gate) {
    // In doubt: LAPACK's may be the ones that are off.
    const std::vector<RealOf<T>> exact = reference::eigh(a).values;
    distance = eigenvalue_distance<T>(values, {exact.begin(), exact.end()});
  }
  auto verdict = !(distance <= eigenvalue_gate) ? ::testing::AssertionFailure()
                                                : ::testing::AssertionSuccess();
  return verdict << "an eigenvalue is off by " << distance << " u ||A||; the limit is "
                 << eigenvalue_gate;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                      \
  template double eigh_residual_ratio<T>(const DenseMatrix<T>&, const Eigenpairs<T>&); \
  template double orthogonality_ratio<T>(const DenseMatrix<T>&);                       \
  template double eigenvalue_distance<T>(const std::vector<RealOf<T>>&,                \
                                         const std::vector<double>&);                  \
  template ::testing::AssertionResult diagonalises<T>(const DenseMatrix<T>&,           \
                                                      const Eigenpairs<T>&);           \
  template ::testing::AssertionResult has_eigenpairs<T>(const DenseMatrix<T>&,         \
                                                        const Eigenpairs<T>&);         \
  template ::testing::AssertionResult has_eigenvalues<T>(const DenseMatrix<T>&,        \
                                                         const std::vector<RealOf<T>>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::testing
