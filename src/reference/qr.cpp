#include "reference/qr.hpp"

#include "core/each_dtype.hpp"
#include "reference/matmul.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <utility>

namespace shardsolve::reference {
namespace qr {
namespace {

/// conj(x)^T y of columns i and j.
template <class W>
W dot(const WideMatrix<W>& a, std::int64_t i, std::int64_t j) {
  W sum{0};
  for (std::int64_t row = 0; row < a.rows; ++row) {
    sum += product(conjugate(a(row, i)), a(row, j));
  }
  return sum;
}

/// (x, y) = (c x - conj(s) y, s x + c y) of columns i and j.
template <class W, class Real>
void rotate(WideMatrix<W>& a, std::int64_t i, std::int64_t j, Real c, W s) {
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const W x = a(row, i);
    const W y = a(row, j);
    a(row, i) = c * x - product(conjugate(s), y);
    a(row, j) = product(s, x) + c * y;
  }
}

/// Makes columns i and j orthogonal; whether they were not.
template <class Real, class W>
bool make_orthogonal(WideMatrix<W>& a, WideMatrix<W>& v, std::int64_t i, std::int64_t j) {
  const Real alpha = std::real(dot(a, i, i));
  const Real beta = std::real(dot(a, j, j));
  const W gamma = dot(a, i, j);
  const Real size = std::abs(gamma);
  if (!(size > std::numeric_limits<Real>::epsilon() * std::sqrt(alpha) * std::sqrt(beta))) {
    return false;
  }
  const Real zeta = (beta - alpha) / (2 * size);
  const Real t = (zeta < 0 ? Real{-1} : Real{1}) / (std::abs(zeta) + std::hypot(Real{1}, zeta));
  const Real c = 1 / std::hypot(Real{1}, t);
  const W s = (gamma / size) * (c * t);
  rotate(a, i, j, c, s);
  rotate(v, i, j, c, s);
  return true;
}

template <class W>
WideMatrix<W> columns_in(const WideMatrix<W>& a, const std::vector<std::int64_t>& order) {
  WideMatrix<W> chosen(a.rows, a.columns);
  for (std::int64_t j = 0; j < a.columns; ++j) {
    for (std::int64_t i = 0; i < a.rows; ++i) {
      chosen(i, j) = a(i, order[static_cast<std::size_t>(j)]);
    }
  }
  return chosen;
}

}  // namespace
}  // namespace qr

template <Scalar T>
Svd<T> svd(const DenseMatrix<T>& a) {
  using W = Wide<T>;
  using Real = WideReal<T>;
  const std::int64_t n = a.columns();
  WideMatrix<W> u(a.rows(), n);
  WideMatrix<W> v(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      u(i, j) = widen(a(i, j));
    }
    v(j, j) = W{1};
  }
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < 60; ++sweep) {
    rotated = false;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = i + 1; j < n; ++j) {
        rotated = qr::make_orthogonal<Real>(u, v, i, j) || rotated;
      }
    }
  }
  std::vector<Real> lengths;
  for (std::int64_t j = 0; j < n; ++j) {
    const Real length = std::sqrt(std::real(qr::dot(u, j, j)));
    lengths.push_back(length);
    for (std::int64_t i = 0; length > 0 && i < u.rows; ++i) {
      u(i, j) /= length;
    }
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    return lengths[static_cast<std::size_t>(i)] > lengths[static_cast<std::size_t>(j)];
  });
  std::stable_sort(lengths.begin(), lengths.end(), std::greater<>());
  return {qr::columns_in(u, order), std::move(lengths), qr::columns_in(v, order)};
}

template <Scalar T>
DenseMatrix<T> shortest_solution(const DenseMatrix<T>& a, const DenseMatrix<T>& b, double rcond) {
  using W = Wide<T>;
  const bool wide = a.rows() < a.columns();
  const Svd<T> found = svd(
      wide ? matmul(Op::conjugate_transpose, a, Op::none, DenseMatrix<T>::identity(a.rows())) : a);
  // of A^H = U s V^H that is A = V s U^H
  const WideMatrix<W>& left = wide ? found.v : found.u;
  const WideMatrix<W>& right = wide ? found.u : found.v;
  DenseMatrix<T> x(a.columns(), b.columns());
  for (std::int64_t column = 0; column < b.columns(); ++column) {
    std::vector<W> sums(static_cast<std::size_t>(a.columns()), W{0});
    for (std::int64_t l = 0; l < static_cast<std::int64_t>(found.s.size()); ++l) {
      const WideReal<T> s = found.s[static_cast<std::size_t>(l)];
      if (!(s > rcond * found.s.front())) {
        break;
      }
      W along{0};
      for (std::int64_t i = 0; i < b.rows(); ++i) {
        along += product(conjugate(left(i, l)), widen(b(i, column)));
      }
      for (std::int64_t i = 0; i < x.rows(); ++i) {
        sums[static_cast<std::size_t>(i)] += product(right(i, l), along / s);
      }
    }
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      x(i, column) = narrow<T>(sums[static_cast<std::size_t>(i)]);
    }
  }
  return x;
}

#define SHARDSOLVE_INSTANTIATE(T)             \
  template Svd<T> svd(const DenseMatrix<T>&); \
  template DenseMatrix<T> shortest_solution(const DenseMatrix<T>&, const DenseMatrix<T>&, double);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::reference
