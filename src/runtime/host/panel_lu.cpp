// A panel is factored in halves, so that nearly all of it is products:
//
//   P1 [a11; a21] = [l11; l21] u11       the left half
//   [a12; a22] = P1 [a12; a22]
//   a12 = l11^-1 a12
//   a22 -= l21 a12
//   P2 a22 = l22 u22                     the right half
//   l21 = P2 l21
//
// A few columns are factored one by one, each one brought up to date just before. Which rows are
// swapped depends on the numbers alone: the search takes the first of equals, whatever the vectors.

#include "runtime/host/panel_lu.hpp"

#include "core/each_dtype.hpp"
#include "runtime/host/blas.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>

namespace shardsolve::runtime::host {
namespace panel_lu {
namespace {

/// Columns that are factored one by one.
constexpr std::int64_t narrow = 16;

template <Scalar T>
RealOf<T> size_of(T value) {
  return std::abs(std::real(value)) + std::abs(std::imag(value));
}

/// The first row with the largest entry of a column. What is no number is never larger; such a row
/// stays, and is found when no other one is left.
template <Scalar T>
std::int64_t largest_row(const T* column, std::int64_t rows) {
  using Real = RealOf<T>;
  constexpr std::int64_t at_once = 8;
  std::array<Real, at_once> most{};
  std::int64_t i = 0;
  for (; i + at_once <= rows; i += at_once) {
    for (std::int64_t l = 0; l < at_once; ++l) {
      const Real size = size_of(column[i + l]);
      most[static_cast<std::size_t>(l)] =
          size > most[static_cast<std::size_t>(l)] ? size : most[static_cast<std::size_t>(l)];
    }
  }
  Real best = *std::max_element(most.begin(), most.end());
  for (; i < rows; ++i) {
    best = std::max(best, size_of(column[i]));
  }
  const T* const found =
      std::find_if(column, column + rows, [&](T value) { return size_of(value) == best; });
  return found == column + rows ? 0 : found - column;
}

/// Divides by a pivot that is not 0.
template <Scalar T>
void divide(T pivot, T* column, std::int64_t rows) {
  using Real = RealOf<T>;
  if constexpr (is_complex<T>) {
    // The reciprocal of a number near the ends of the range may be beyond them.
    const Real size = size_of(pivot);
    constexpr Real low = std::numeric_limits<Real>::min() * 16;
    if (size > low && size < 1 / low) {
      const T factor = T{1} / pivot;
      const Real re = factor.real();
      const Real im = factor.imag();
      for (std::int64_t i = 0; i < rows; ++i) {
        const Real x = column[i].real();
        const Real y = column[i].imag();
        column[i] = {x * re - y * im, x * im + y * re};
      }
      return;
    }
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    column[i] /= pivot;
  }
}

/// b = l^-1 b for one column, l unit lower triangular of a few rows.
template <Scalar T>
void solve_few(MatrixView<const T> l, T* b) {
  for (std::int64_t k = 0; k < l.columns(); ++k) {
    for (std::int64_t i = k + 1; i < l.columns(); ++i) {
      b[i] -= l(i, k) * b[k];
    }
  }
}

/// Swaps two rows of some columns.
template <Scalar T>
void swap_two(MatrixView<T> a, std::int64_t i, std::int64_t j) {
  for (std::int64_t column = 0; i != j && column < a.columns(); ++column) {
    std::swap(a(i, column), a(j, column));
  }
}

template <Scalar T>
std::int64_t factor_columns(std::int64_t first, MatrixView<T> a, std::int64_t* places) {
  std::int64_t info = 0;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    T* const column = a.columns_from(j, 1).data();
    if (j > 0) {
      // u = l11^-1 a1, a2 -= l21 u
      solve_few<T>(a.block(0, 0, j, j), column);
      blas::Blas<T>::gemv(Op::none, T{-1}, a.block(j, 0, a.rows() - j, j), column, T{1},
                          column + j);
    }
    const std::int64_t pivot = j + largest_row(column + j, a.rows() - j);
    places[j] = first + pivot;
    swap_two(a, j, pivot);
    if (info == 0 && !std::isfinite(size_of(column[j]))) {
      info = -(j + 1);
    }
    if (column[j] != T{0}) {
      divide(column[j], column + j + 1, a.rows() - j - 1);
    }
  }
  return info;
}

}  // namespace
}  // namespace panel_lu

template <Scalar T>
void swap_panel_rows(std::int64_t first, const std::int64_t* places, std::int64_t count,
                     MatrixView<T> a) {
  for (std::int64_t column = 0; column < a.columns(); ++column) {
    T* const entries = a.columns_from(column, 1).data();
    for (std::int64_t j = 0; j < count; ++j) {
      std::swap(entries[j], entries[places[j] - first]);
    }
  }
}

template <Scalar T>
void solve_unit_lower(MatrixView<const T> tile, MatrixView<T> b) {
  const std::int64_t n = tile.rows();
  if (n <= 32) {
    blas::Blas<T>::trsm_unit_lower(Op::none, tile, b);
    return;
  }
  // In halves, most of it is gemm, which OpenBLAS does faster than trsm.
  const std::int64_t half = n / 2;
  const MatrixView<T> b1 = b.block(0, 0, half, b.columns());
  const MatrixView<T> b2 = b.block(half, 0, n - half, b.columns());
  solve_unit_lower<T>(tile.block(0, 0, half, half), b1);
  blas::Blas<T>::gemm(Op::none, Op::none, T{-1}, tile.block(half, 0, n - half, half), b1, T{1}, b2);
  solve_unit_lower<T>(tile.block(half, half, n - half, n - half), b2);
}

template <Scalar T>
std::int64_t factor_panel(std::int64_t first, MatrixView<T> a, std::int64_t* places) {
  const std::int64_t m = a.rows();
  const std::int64_t w = a.columns();
  if (w <= panel_lu::narrow) {
    return panel_lu::factor_columns(first, a, places);
  }
  const std::int64_t half = w / 2;
  const MatrixView<T> left = a.columns_from(0, half);
  const MatrixView<T> right = a.columns_from(half, w - half);
  const std::int64_t info = factor_panel(first, left, places);
  swap_panel_rows(first, places, half, right);
  const MatrixView<T> u = right.block(0, 0, half, w - half);
  solve_unit_lower<T>(left.block(0, 0, half, half), u);
  const MatrixView<T> below = right.block(half, 0, m - half, w - half);
  blas::Blas<T>::gemm(Op::none, Op::none, T{-1}, left.block(half, 0, m - half, half), u, T{1},
                      below);
  const std::int64_t info_right = factor_panel(first + half, below, places + half);
  swap_panel_rows(first + half, places + half, w - half, left.block(half, 0, m - half, half));
  return info != 0 || info_right == 0 ? info : info_right - half;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                \
  template std::int64_t factor_panel(std::int64_t, MatrixView<T>, std::int64_t*);                \
  template void swap_panel_rows(std::int64_t, const std::int64_t*, std::int64_t, MatrixView<T>); \
  template void solve_unit_lower(MatrixView<const T>, MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::host
