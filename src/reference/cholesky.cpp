#include "reference/cholesky.hpp"

#include "core/each_dtype.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace shardsolve::reference {
namespace {

template <Scalar T>
DenseMatrix<T> positive_definite_factor(const DenseMatrix<T>& a) {
  CholeskyFactor<T> factor = cholesky(a);
  if (factor.failed_pivot) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("matrix whose pivot {} is not positive given; the reference solves "
                            "positive definite systems only",
                            *factor.failed_pivot));
  }
  return std::move(factor.l);
}

}  // namespace

template <Scalar T>
CholeskyFactor<T> cholesky(const DenseMatrix<T>& a) {
  const std::int64_t n = a.rows();
  DenseMatrix<T> l(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = j; i < n; ++i) {
      // sum = a_ij - sum over k < j of l_ik conj(l_jk)
      Wide<T> sum = widen(a(i, j));
      for (std::int64_t k = 0; k < j; ++k) {
        sum -= product(widen(l(i, k)), conjugate(widen(l(j, k))));
      }
      if (i == j) {
        const WideReal<T> pivot = std::real(sum);
        if (!(pivot > 0)) {
          return {std::move(l), j};
        }
        l(j, j) = static_cast<RealOf<T>>(std::sqrt(pivot));
      } else {
        l(i, j) = narrow<T>(sum / std::real(widen(l(j, j))));
      }
    }
  }
  return {std::move(l), std::nullopt};
}

template <Scalar T>
DenseMatrix<T> solve_lower(const DenseMatrix<T>& l, DenseMatrix<T> b) {
  for (std::int64_t column = 0; column < b.columns(); ++column) {
    for (std::int64_t i = 0; i < l.rows(); ++i) {
      Wide<T> sum = widen(b(i, column));
      for (std::int64_t k = 0; k < i; ++k) {
        sum -= product(widen(l(i, k)), widen(b(k, column)));
      }
      b(i, column) = narrow<T>(sum / widen(l(i, i)));
    }
  }
  return b;
}

template <Scalar T>
DenseMatrix<T> solve_lower_adjoint(const DenseMatrix<T>& l, DenseMatrix<T> b) {
  for (std::int64_t column = 0; column < b.columns(); ++column) {
    for (std::int64_t i = l.rows() - 1; i >= 0; --i) {
      Wide<T> sum = widen(b(i, column));
      for (std::int64_t k = i + 1; k < l.rows(); ++k) {
        sum -= product(conjugate(widen(l(k, i))), widen(b(k, column)));
      }
      b(i, column) = narrow<T>(sum / conjugate(widen(l(i, i))));
    }
  }
  return b;
}

template <Scalar T>
DenseMatrix<T> solve(const DenseMatrix<T>& a, const DenseMatrix<T>& b) {
  const DenseMatrix<T> l = positive_definite_factor(a);
  return solve_lower_adjoint(l, solve_lower(l, b));
}

template <Scalar T>
DenseMatrix<T> inverse(const DenseMatrix<T>& a) {
  return solve(a, DenseMatrix<T>::identity(a.rows()));
}

template <Scalar T>
double log_determinant(const DenseMatrix<T>& a) {
  const DenseMatrix<T> l = positive_definite_factor(a);
  WideReal<T> sum = 0;
  for (std::int64_t i = 0; i < l.rows(); ++i) {
    sum += std::log(std::real(widen(l(i, i))));
  }
  return static_cast<double>(2 * sum);
}

#define SHARDSOLVE_INSTANTIATE(T)                                                        \
  template CholeskyFactor<T> cholesky<T>(const DenseMatrix<T>&);                         \
  template DenseMatrix<T> solve_lower<T>(const DenseMatrix<T>&, DenseMatrix<T>);         \
  template DenseMatrix<T> solve_lower_adjoint<T>(const DenseMatrix<T>&, DenseMatrix<T>); \
  template DenseMatrix<T> solve<T>(const DenseMatrix<T>&, const DenseMatrix<T>&);        \
  template DenseMatrix<T> inverse<T>(const DenseMatrix<T>&);                             \
  template double log_determinant<T>(const DenseMatrix<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::reference
