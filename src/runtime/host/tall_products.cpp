#include "runtime/host/tall_products.hpp"

#include "core/each_dtype.hpp"
#include "runtime/host/blas.hpp"
#include "runtime/host/conjugate.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <type_traits>
#include <vector>

namespace shardsolve::runtime::host {
namespace tall_products {
namespace {

using blas::Blas;

/// Rows taken together: their sums are the BLAS's, and those are added in double precision.
constexpr std::int64_t tile_rows = 256;

/// A copy of rows in double precision, in memory that is used again.
template <Scalar T>
MatrixView<const WideOf<T>> widened(MatrixView<const T> rows, std::vector<WideOf<T>>& memory) {
  memory.resize(static_cast<std::size_t>(rows.rows() * rows.columns()));
  const MatrixView<WideOf<T>> wide(memory.data(), rows.rows(), rows.columns());
  for (std::int64_t j = 0; j < rows.columns(); ++j) {
    for (std::int64_t i = 0; i < rows.rows(); ++i) {
      wide(i, j) = static_cast<WideOf<T>>(rows(i, j));
    }
  }
  return wide;
}

/// A view of the same numbers: rows as they are.
template <Scalar T>
MatrixView<const T> rows_of(MatrixView<const T> a, std::int64_t first) {
  return a.block(first, 0, std::min(tile_rows, a.rows() - first), a.columns());
}

/// target += source.
template <Scalar T>
void accumulate(MatrixView<const T> source, MatrixView<WideOf<T>> target) {
  for (std::int64_t j = 0; j < target.columns(); ++j) {
    for (std::int64_t i = 0; i < target.rows(); ++i) {
      target(i, j) += static_cast<WideOf<T>>(source(i, j));
    }
  }
}

/// The sum of the squares of a Hermitian matrix's entries, from its upper triangle.
template <Scalar W>
double squares_of(MatrixView<const W> a) {
  double sum = 0.0;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      sum += 2.0 * std::norm(a(i, j));
    }
    sum += std::norm(a(j, j));
  }
  return sum;
}

/// Whether the Gram matrix of the same columns at length 1 is within 1/2 of I: E in the Frobenius
/// norm, or E E in that norm within 1/4, which is closer to the 2-norm.
template <Scalar W>
bool is_near_identity(MatrixView<const W> g) {
  const std::int64_t n = g.columns();
  std::vector<W> memory(static_cast<std::size_t>(2 * n * n));
  const MatrixView<W> e(memory.data(), n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < j; ++i) {
      e(i, j) = g(i, j) / std::sqrt(std::real(g(i, i)) * std::real(g(j, j)));
      e(j, i) = conjugate(e(i, j));
    }
  }
  const double squares = squares_of<W>(e);
  if (n > max_squared_columns || squares < 0.25 || !(squares < 0.25 * static_cast<double>(n))) {
    return squares < 0.25;
  }
  const MatrixView<W> square(memory.data() + n * n, n, n);
  Blas<W>::herk(Triangle::upper, Op::none, 1.0, e, 0.0, square);
  return squares_of<W>(square) < 1.0 / 16.0;
}

/// The factor of g + s I over `into`, false if there is none.
template <Scalar W>
bool factor(MatrixView<const W> g, double s, MatrixView<W> into) {
  for (std::int64_t j = 0; j < g.columns(); ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      into(i, j) = g(i, j);
    }
    into(j, j) = std::real(g(j, j)) + s;
  }
  if (Blas<W>::potrf(Triangle::upper, into) != 0) {
    return false;
  }
  // A NaN passes LAPACK's test of a pivot or not, as the compiler likes.
  for (std::int64_t j = 0; j < into.columns(); ++j) {
    if (!(std::real(into(j, j)) > 0.0) || !std::isfinite(std::real(into(j, j)))) {
      return false;
    }
  }
  return true;
}

template <Scalar W>
double smallest_pivot(MatrixView<const W> r) {
  double least = std::real(r(0, 0));
  for (std::int64_t j = 1; j < r.columns(); ++j) {
    least = std::min(least, std::real(r(j, j)));
  }
  return least;
}

/// q = q r^-1, by blocks of columns: all but the diagonal's is gemm.
template <Scalar T>
void divide_by(MatrixView<const T> r, MatrixView<T> q) {
  constexpr std::int64_t block = 64;
  for (std::int64_t first = 0; first < q.columns(); first += block) {
    const std::int64_t width = std::min(block, q.columns() - first);
    const MatrixView<T> some = q.columns_from(first, width);
    if (first > 0) {
      Blas<T>::gemm(Op::none, Op::none, T{-1}, q.columns_from(0, first),
                    r.block(0, first, first, width), T{1}, some);
    }
    Blas<T>::trsm(Side::right, Triangle::upper, Op::none, r.block(first, first, width, width),
                  some);
  }
}

}  // namespace
}  // namespace tall_products

template <Scalar T>
void adjoint_product(MatrixView<const T> a, MatrixView<const T> b, MatrixView<WideOf<T>> target) {
  using namespace tall_products;
  std::vector<T> memory(static_cast<std::size_t>(target.rows() * target.columns()));
  const MatrixView<T> sums(memory.data(), target.rows(), target.columns());
  for (std::int64_t j = 0; j < target.columns(); ++j) {
    std::fill_n(&target(0, j), target.rows(), WideOf<T>{0});
  }
  for (std::int64_t row = 0; row < a.rows(); row += tile_rows) {
    Blas<T>::gemm(Op::conjugate_transpose, Op::none, T{1}, rows_of(a, row), rows_of(b, row), T{0},
                  sums);
    accumulate<T>(sums, target);
  }
}

template <Scalar T>
void gram(MatrixView<const T> a, MatrixView<WideOf<T>> g) {
  using namespace tall_products;
  using Wide = WideOf<T>;
  for (std::int64_t j = 0; j < g.columns(); ++j) {
    std::fill_n(&g(0, j), g.rows(), Wide{0});
  }
  if constexpr (std::is_same_v<T, Wide>) {
    if (a.rows() > 0) {
      Blas<T>::herk(Triangle::upper, Op::conjugate_transpose, 1.0, a, 1.0, g);
    }
  } else {
    std::vector<Wide> memory;
    for (std::int64_t row = 0; row < a.rows(); row += tile_rows) {
      Blas<Wide>::herk(Triangle::upper, Op::conjugate_transpose, 1.0,
                       widened(rows_of(a, row), memory), 1.0, g);
    }
  }
}

template <Scalar W>
GramVerdict gram_factor(double shift, MatrixView<W> g) {
  using namespace tall_products;
  const std::int64_t n = g.columns();
  if (n == 0) {
    return GramVerdict::near;
  }
  std::vector<W> memory(static_cast<std::size_t>(n * n));
  const MatrixView<W> r(memory.data(), n, n);
  const bool near = is_near_identity<W>(g);
  bool found = factor<W>(g, 0.0, r);
  if (!near) {
    double trace = 0.0;
    for (std::int64_t j = 0; j < n; ++j) {
      trace += std::real(g(j, j));
    }
    const double s = shift * trace;
    if (!found || std::pow(smallest_pivot<W>(r), 2) < 4.0 * s) {
      found = factor<W>(g, s, r);
    }
  }
  for (std::int64_t j = 0; j < n; ++j) {
    std::copy_n(&r(0, j), j + 1, &g(0, j));
    std::fill_n(&g(0, j) + j + 1, n - j - 1, W{0});
  }
  return !found ? GramVerdict::broken : near ? GramVerdict::near : GramVerdict::far;
}

template <Scalar T>
void divide(MatrixView<const WideOf<T>> r, MatrixView<T> q) {
  using namespace tall_products;
  if constexpr (std::is_same_v<T, WideOf<T>>) {
    divide_by<T>(r, q);
  } else {
    std::vector<T> memory(static_cast<std::size_t>(r.rows() * r.columns()));
    const MatrixView<T> rounded(memory.data(), r.rows(), r.columns());
    for (std::int64_t j = 0; j < r.columns(); ++j) {
      for (std::int64_t i = 0; i < r.rows(); ++i) {
        rounded(i, j) = static_cast<T>(r(i, j));
      }
    }
    divide_by<T>(rounded, q);
  }
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                 \
  template void adjoint_product(MatrixView<const T>, MatrixView<const T>, MatrixView<WideOf<T>>); \
  template void gram(MatrixView<const T>, MatrixView<WideOf<T>>);                                 \
  template void divide(MatrixView<const WideOf<T>>, MatrixView<T>);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE
template GramVerdict gram_factor(double, MatrixView<double>);
template GramVerdict gram_factor(double, MatrixView<std::complex<double>>);

}  // namespace shardsolve::runtime::host
