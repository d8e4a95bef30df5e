#include "reference/lu.hpp"

#include "core/each_dtype.hpp"
#include "reference/wide.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <utility>

namespace shardsolve::reference {
namespace {

template <Scalar T>
void swap_rows(DenseMatrix<T>& a, std::int64_t i, std::int64_t j) {
  for (std::int64_t column = 0; i != j && column < a.columns(); ++column) {
    std::swap(a(i, column), a(j, column));
  }
}

/// Column j of L and U, both rounded, from the columns before and the swaps so far.
template <Scalar T>
void make_column(DenseMatrix<T>& a, std::int64_t j) {
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    Wide<T> sum = widen(a(i, j));
    for (std::int64_t k = 0; k < std::min(i, j); ++k) {
      sum -= product(widen(a(i, k)), widen(a(k, j)));
    }
    a(i, j) = narrow<T>(sum);
  }
}

template <Scalar T>
std::int64_t largest_from(const DenseMatrix<T>& a, std::int64_t j) {
  const auto size = [&](std::int64_t i) {
    return std::abs(std::real(a(i, j))) + std::abs(std::imag(a(i, j)));
  };
  std::int64_t best = j;
  for (std::int64_t i = j + 1; i < a.rows(); ++i) {
    best = size(i) > size(best) ? i : best;
  }
  return best;
}

/// b = t^-1 b, for op(t) with t a triangle of `lu`, by its columns or its rows.
template <Scalar T>
void substitute(const DenseMatrix<T>& lu, bool lower, Op op, DenseMatrix<T>& b) {
  const std::int64_t n = lu.rows();
  const auto entry = [&](std::int64_t i, std::int64_t k) {
    const Wide<T> value = widen(op == Op::none ? lu(i, k) : lu(k, i));
    return op == Op::conjugate_transpose ? conjugate(value) : value;
  };
  const bool downwards = lower == (op == Op::none);
  for (std::int64_t column = 0; column < b.columns(); ++column) {
    for (std::int64_t step = 0; step < n; ++step) {
      const std::int64_t i = downwards ? step : n - 1 - step;
      Wide<T> sum = widen(b(i, column));
      for (std::int64_t k = downwards ? 0 : i + 1; k < (downwards ? i : n); ++k) {
        sum -= product(entry(i, k), widen(b(k, column)));
      }
      b(i, column) = narrow<T>(lower ? sum : sum / entry(i, i));
    }
  }
}

}  // namespace

template <Scalar T>
LuFactor<T> lu(const DenseMatrix<T>& a) {
  LuFactor<T> factor{a, std::vector<std::int64_t>(static_cast<std::size_t>(a.rows())), false, {}};
  std::iota(factor.rows.begin(), factor.rows.end(), 0);
  DenseMatrix<T>& lu = factor.lu;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    make_column(lu, j);
    const std::int64_t best = largest_from(lu, j);
    if (best != j) {
      swap_rows(lu, j, best);
      std::swap(factor.rows[static_cast<std::size_t>(j)],
                factor.rows[static_cast<std::size_t>(best)]);
      factor.odd = !factor.odd;
    }
    if (lu(j, j) == T{0}) {
      factor.zero_pivot = factor.zero_pivot.value_or(j);
      continue;
    }
    for (std::int64_t i = j + 1; i < a.rows(); ++i) {
      lu(i, j) = narrow<T>(widen(lu(i, j)) / widen(lu(j, j)));
    }
  }
  return factor;
}

template <Scalar T>
DenseMatrix<T> lu_solve(const LuFactor<T>& factor, Op op, const DenseMatrix<T>& b) {
  DenseMatrix<T> x(b.rows(), b.columns());
  // P A = L U, so A = P^T L U and op(A) = op(U) op(L) P.
  DenseMatrix<T> y = b;
  if (op == Op::none) {
    for (std::int64_t j = 0; j < b.columns(); ++j) {
      for (std::int64_t i = 0; i < b.rows(); ++i) {
        y(i, j) = b(factor.rows[static_cast<std::size_t>(i)], j);
      }
    }
    substitute(factor.lu, true, op, y);
    substitute(factor.lu, false, op, y);
    return y;
  }
  substitute(factor.lu, false, op, y);
  substitute(factor.lu, true, op, y);
  for (std::int64_t j = 0; j < b.columns(); ++j) {
    for (std::int64_t i = 0; i < b.rows(); ++i) {
      x(factor.rows[static_cast<std::size_t>(i)], j) = y(i, j);
    }
  }
  return x;
}

template <Scalar T>
SignAndLog<T> lu_determinant(const LuFactor<T>& factor) {
  if (factor.zero_pivot) {
    return {T{0}, -std::numeric_limits<double>::infinity()};
  }
  Wide<T> sign = factor.odd ? -1 : 1;
  WideReal<T> log = 0;
  for (std::int64_t i = 0; i < factor.lu.rows(); ++i) {
    const Wide<T> pivot = widen(factor.lu(i, i));
    log += std::log(std::abs(pivot));
    sign = product(sign, Wide<T>(pivot / std::abs(pivot)));
  }
  return {narrow<T>(sign), static_cast<double>(log)};
}

#define SHARDSOLVE_INSTANTIATE(T)                                                     \
  template LuFactor<T> lu<T>(const DenseMatrix<T>&);                                  \
  template DenseMatrix<T> lu_solve<T>(const LuFactor<T>&, Op, const DenseMatrix<T>&); \
  template SignAndLog<T> lu_determinant<T>(const LuFactor<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::reference
