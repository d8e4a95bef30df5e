// Columns by few: reflectors of some columns, applied to these one by one and to all columns behind
// as a block.
//
// Sums over rows are made of few rows at a time. Where all that is added up is equal or nearly so,
// as in a matrix of equal entries, every addition rounds to the same side, and a sum of m numbers
// is off by some m u / 4 and not by sqrt(m) u. t in particular has to fit V: with
// t^-1 + t^-H = V^H V but for a share, Q is unitary but for twice that. So what t is made of is
// added up in twice the precision. LAPACK's geqrt, which sums up all rows at once, left Q of 1000
// rows of equal entries orthogonal to 700 u.

#include "runtime/host/panel_qr.hpp"

#include "runtime/host/blas.hpp"
#include "runtime/host/conjugate.hpp"
#include "runtime/host/twofold.hpp"

#include <algorithm>
#include <complex>
#include <functional>

namespace shardsolve::runtime::host {
namespace {

constexpr std::int64_t columns_in_turn = 8;
constexpr std::int64_t rows_in_a_sum = 16;

/// c = a^H b
template <Scalar T>
void multiply_adjoint(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c) {
  for (std::int64_t row = 0; row < a.rows(); row += rows_in_a_sum) {
    const std::int64_t rows = std::min(rows_in_a_sum, a.rows() - row);
    blas::Blas<T>::gemm(Op::conjugate_transpose, Op::none, T{1}, a.block(row, 0, rows, a.columns()),
                        b.block(row, 0, rows, b.columns()), row == 0 ? T{0} : T{1}, c);
  }
}

/// y = a^H x
template <Scalar T>
void multiply_adjoint(MatrixView<const T> a, const T* x, T* y) {
  for (std::int64_t row = 0; row < a.rows(); row += rows_in_a_sum) {
    const std::int64_t rows = std::min(rows_in_a_sum, a.rows() - row);
    blas::Blas<T>::gemv(Op::conjugate_transpose, T{1}, a.block(row, 0, rows, a.columns()), x + row,
                        row == 0 ? T{0} : T{1}, y);
  }
}

/// The numbers that those of a complex one are, too.
template <Scalar T>
RealOf<T>* parts(T* numbers) {
  return reinterpret_cast<RealOf<T>*>(numbers);
}

/// v^H v, its parts added up in twice the precision; `work` has room for three of it, and the first
/// is returned.
template <Scalar T>
MatrixView<T> gram(MatrixView<const T> v, T* work) {
  using Real = RealOf<T>;
  const std::int64_t columns = v.columns();
  const std::int64_t size = columns * columns;
  const MatrixView<T> term(work + 2 * size, columns, columns);
  std::fill(work, work + 2 * size, T{0});
  for (std::int64_t row = 0; row < v.rows(); row += rows_in_a_sum) {
    const MatrixView<const T> part =
        v.block(row, 0, std::min(rows_in_a_sum, v.rows() - row), columns);
    blas::Blas<T>::gemm(Op::conjugate_transpose, Op::none, T{1}, part, part, T{0}, term);
    Real* const high = parts(work);
    Real* const low = parts(work + size);
    const Real* const terms = parts(term.data());
    for (std::int64_t i = 0; i < size * (is_complex<T> ? 2 : 1); ++i) {
      Twofold<Real> sum{high[i], low[i]};
      sum.add(terms[i]);
      high[i] = sum.high;
      low[i] = sum.low;
    }
  }
  std::transform(work, work + size, work + size, work, std::plus<>());
  return {work, columns, columns};
}

/// t of v, on its diagonal the reflectors' tau already; `work`: see gram().
template <Scalar T>
void complete_t(MatrixView<const T> v, MatrixView<T> t, T* work) {
  const MatrixView<T> products = gram<T>(v, work);
  for (std::int64_t j = 0; j < t.columns(); ++j) {
    // t_j = -tau_j t (v^H v)_j, of the columns before j
    for (std::int64_t i = 0; i < j; ++i) {
      T sum{0};
      for (std::int64_t l = i; l < j; ++l) {
        sum += t(i, l) * products(l, j);
      }
      t(i, j) = -t(j, j) * sum;
    }
    std::fill(&t(0, j) + j + 1, &t(0, j) + t.rows(), T{0});
  }
}

/// Reflectors of the columns of `a`; tau to the diagonal of t.
template <Scalar T>
void reflect_columns(MatrixView<T> a, MatrixView<T> t, T* work) {
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    T* const v = &a(j, j);
    const T tau = blas::Blas<T>::larfg(a.rows() - j, v);
    t(j, j) = tau;
    const std::int64_t behind = a.columns() - j - 1;
    if (behind > 0 && tau != T{0}) {
      // a -= conj(tau) v (a^H v)^H
      const T beta = *v;
      *v = T{1};
      const MatrixView<T> rest = a.block(j, j + 1, a.rows() - j, behind);
      multiply_adjoint<T>(rest, v, work);
      blas::Blas<T>::gerc(-conjugate(tau), v, work, rest);
      *v = beta;
    }
  }
}

/// R to r and V alone in `a`, for some columns, the first of which is `first`.
template <Scalar T>
void split(MatrixView<T> a, std::int64_t first, MatrixView<T> r) {
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    const std::int64_t above = std::min(first + j + 1, r.rows());
    std::copy(&a(0, j), &a(0, j) + above, &r(0, j));
    std::fill(&r(0, j) + above, &r(0, j) + r.rows(), T{0});
    if (first + j < r.rows()) {
      std::fill(&a(0, j), &a(0, j) + first + j, T{0});
      a(first + j, j) = T{1};
    }
  }
}

}  // namespace

template <Scalar T>
void panel_qr(MatrixView<T> a, MatrixView<T> r, MatrixView<T> t, T* work) {
  using Blas = blas::Blas<T>;
  const std::int64_t reflectors = t.rows();
  for (std::int64_t first = 0; first < reflectors; first += columns_in_turn) {
    const std::int64_t count = std::min(columns_in_turn, reflectors - first);
    const std::int64_t rows = a.rows() - first;
    const MatrixView<T> v = a.block(first, first, rows, count);
    const MatrixView<T> t_of_v = t.block(first, first, count, count);
    reflect_columns<T>(v, t_of_v, work);
    split<T>(a.columns_from(first, count), first, r.columns_from(first, count));
    const std::int64_t behind = a.columns() - first - count;
    if (behind > 0) {
      // rest -= v (t^H (v^H rest))
      const MatrixView<T> rest = a.block(first, first + count, rows, behind);
      complete_t<T>(v, t_of_v, work);
      const MatrixView<T> products(work, count, behind);
      const MatrixView<T> turned =
          r.block(first, first + count, count, behind);  // r is not there yet
      multiply_adjoint<T>(v, rest, products);
      Blas::gemm(Op::conjugate_transpose, Op::none, T{1}, t_of_v, products, T{0}, turned);
      Blas::gemm(Op::none, Op::none, T{-1}, v, turned, T{1}, rest);
    }
  }
  const std::int64_t behind = a.columns() - reflectors;
  split<T>(a.columns_from(reflectors, behind), reflectors, r.columns_from(reflectors, behind));
  complete_t<T>(a.columns_from(0, reflectors), t, work);
}

template void panel_qr(MatrixView<float>, MatrixView<float>, MatrixView<float>, float*);
template void panel_qr(MatrixView<double>, MatrixView<double>, MatrixView<double>, double*);
template void panel_qr(MatrixView<std::complex<float>>, MatrixView<std::complex<float>>,
                       MatrixView<std::complex<float>>, std::complex<float>*);
template void panel_qr(MatrixView<std::complex<double>>, MatrixView<std::complex<double>>,
                       MatrixView<std::complex<double>>, std::complex<double>*);

}  // namespace shardsolve::runtime::host
