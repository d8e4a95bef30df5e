#include "tests/support/qr_zoo.hpp"

#include "core/each_dtype.hpp"
#include "matgen/matrices.hpp"
#include "reference/matmul.hpp"
#include "reference/qr.hpp"
#include "reference/wide.hpp"
#include "tests/support/lapack.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <type_traits>
#include <utility>

namespace shardsolve::testing {
namespace qr {
namespace {

using reference::matmul;
using reference::Op;
using reference::Wide;
using reference::widen;
using reference::WideReal;

template <Scalar T>
constexpr bool is_double = std::is_same_v<RealOf<T>, double>;

template <Scalar T>
DenseMatrix<T> random(std::int64_t m, std::int64_t n, std::uint64_t seed) {
  DenseMatrix<T> a(m, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < m; ++i) {
      a(i, j) = matgen::rhs<T>(seed, GlobalIndex(i), j);
    }
  }
  return a;
}

template <Scalar T>
DenseMatrix<T> scaled_columns(DenseMatrix<T> a, const std::vector<double>& factors) {
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      a(i, j) = static_cast<T>(widen(a(i, j)) *
                               static_cast<WideReal<T>>(factors[static_cast<std::size_t>(j)]));
    }
  }
  return a;
}

/// From 10^first to 10^last in equal ratios.
std::vector<double> geometric(std::int64_t n, double first, double last) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) {
    const double part = static_cast<double>(i) / static_cast<double>(n - 1);
    values.push_back(std::pow(10.0, first + (last - first) * part));
  }
  return values;
}

template <Scalar T>
DenseMatrix<T> with_singular_values(std::int64_t m, std::int64_t n, double last) {
  const DenseMatrix<T> u = lapack_qr(random<T>(m, n, 11)).q;
  const DenseMatrix<T> v = lapack_qr(random<T>(n, n, 12)).q;
  return matmul(Op::none, scaled_columns(u, geometric(n, 0.0, last)), Op::conjugate_transpose, v);
}

template <Scalar T>
DenseMatrix<T> kahan(std::int64_t m, std::int64_t n) {
  DenseMatrix<T> r(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      const double row = std::pow(1.2, -static_cast<double>(i));
      r(i, j) = static_cast<T>(static_cast<RealOf<T>>(row * (i == j ? 1.0 - 0.55 : -0.55)));
    }
  }
  return matmul(Op::none, lapack_qr(random<T>(m, n, 13)).q, Op::none, r);
}

template <Scalar T, class Entry>
DenseMatrix<T> filled(std::int64_t m, std::int64_t n, Entry entry) {
  DenseMatrix<T> a(m, n);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < m; ++i) {
      a(i, j) = static_cast<T>(static_cast<RealOf<T>>(entry(i, j)));
    }
  }
  return a;
}

/// Of wide numbers.
template <class W>
auto norm_of(const std::vector<W>& values) {
  decltype(std::abs(W{})) sum = 0;
  for (const W value : values) {
    sum += std::norm(value);
  }
  return std::sqrt(sum);
}

}  // namespace
}  // namespace qr

template <Scalar T>
std::vector<QrCase<T>> qr_zoo(std::int64_t m, std::int64_t n) {
  using namespace qr;
  std::vector<QrCase<T>> all;
  all.push_back({"random", random<T>(m, n, 3)});
  const double little = is_double<T> ? 1e-9 : 1e-4;
  all.push_back({"lauchli", filled<T>(m, n, [&](std::int64_t i, std::int64_t j) {
                   return i == 0 ? 1.0 : i == j + 1 ? little : 0.0;
                 })});
  all.push_back({"kahan", kahan<T>(m, n), !is_double<T>});
  all.push_back({"rank5", matmul(Op::none, random<T>(m, 5, 4), Op::none, random<T>(5, n, 5))});
  all.push_back({"cond_1e6", with_singular_values<T>(m, n, -6.0), !is_double<T>});
  all.push_back({"cond_1e11", with_singular_values<T>(m, n, -11.0), !is_double<T>});
  all.push_back({"cond_1e20", with_singular_values<T>(m, n, -20.0), true});
  const double most = is_double<T> ? 150.0 : 15.0;
  all.push_back(
      {"columns", scaled_columns(random<T>(m, n, 6), geometric(n, most, -most)), false, true});
  all.push_back({"zero_column", random<T>(m, n, 7)});
  for (std::int64_t i = 0; i < m; ++i) {
    all.back().a(i, n / 2) = T{0};
  }
  all.push_back({"zero", DenseMatrix<T>(m, n)});
  all.push_back({"equal_columns", random<T>(m, n, 8)});
  for (std::int64_t i = 0; i < m; ++i) {
    all.back().a(i, n - 1) = all.back().a(i, 0);
  }
  all.push_back({"equal_rows", random<T>(m, n, 9)});
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i + 1 < m; i += 2) {
      all.back().a(i + 1, j) = all.back().a(i, j);
    }
  }
  all.push_back({"ones", filled<T>(m, n, [](std::int64_t, std::int64_t) { return 1.0; })});
  all.push_back({"hilbert",
                 filled<T>(m, n,
                           [](std::int64_t i, std::int64_t j) {
                             return 1.0 / static_cast<double>(i + j + 1);
                           }),
                 true});
  all.push_back({"vandermonde",
                 filled<T>(m, n,
                           [&](std::int64_t i, std::int64_t j) {
                             return std::pow(static_cast<double>(i) / static_cast<double>(m - 1),
                                             static_cast<double>(j));
                           }),
                 true});
  const double least = is_double<T> ? 1e-300 : 1e-34;
  all.push_back({"tiny", scaled_columns(random<T>(m, n, 10),
                                        std::vector<double>(static_cast<std::size_t>(n), least))});
  return all;
}

template <Scalar T>
DenseMatrix<T> sides_for(const QrCase<T>& one) {
  using namespace qr;
  const std::int64_t m = one.a.rows();
  DenseMatrix<T> b = random<T>(m, 3, 21);
  const ScaledPair<T> scaled = with_equal_columns(one.a);
  const DenseMatrix<T> inside =
      matmul(Op::none, scaled.a, Op::none, random<T>(one.a.columns(), 2, 22));
  for (std::int64_t i = 0; i < m; ++i) {
    b(i, 1) = inside(i, 0);
    b(i, 2) = inside(i, 1) + b(i, 2) * static_cast<RealOf<T>>(is_double<T> ? 1e-6 : 1e-3);
  }
  return b;
}

template <Scalar T>
double q_ratio(const DenseMatrix<T>& q) {
  using namespace qr;
  WideReal<T> sum = 0;
  for (std::int64_t i = 0; i < q.columns(); ++i) {
    for (std::int64_t j = 0; j < q.columns(); ++j) {
      Wide<T> dot{i == j ? WideReal<T>{-1} : WideReal<T>{0}};
      for (std::int64_t row = 0; row < q.rows(); ++row) {
        dot += reference::product(reference::conjugate(widen(q(row, i))), widen(q(row, j)));
      }
      sum += std::norm(dot);
    }
  }
  return static_cast<double>(std::sqrt(sum)) / unit_roundoff<T>;
}

template <Scalar T>
double qr_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& q, const DenseMatrix<T>& r) {
  using namespace qr;
  WideReal<T> worst = 0;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    WideReal<T> difference = 0;
    WideReal<T> size = 0;
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      Wide<T> sum = widen(a(i, j));
      size += std::norm(sum);
      for (std::int64_t k = 0; k <= j; ++k) {
        sum -= reference::product(widen(q(i, k)), widen(r(k, j)));
      }
      difference += std::norm(sum);
    }
    if (!(difference == 0)) {
      worst = reference::larger(worst, std::sqrt(difference / size));
    }
  }
  return static_cast<double>(worst) / unit_roundoff<T>;
}

template <Scalar T>
double least_squares_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& x,
                           const DenseMatrix<T>& b, std::int64_t rank) {
  using namespace qr;
  using Real = WideReal<T>;
  const bool wide = a.rows() < a.columns();
  const reference::Svd<T> found = reference::svd(
      wide ? matmul(Op::conjugate_transpose, a, Op::none, DenseMatrix<T>::identity(a.rows())) : a);
  const reference::WideMatrix<Wide<T>>& left = wide ? found.v : found.u;
  const Real size = norm_of(std::vector<Wide<T>>(found.s.begin(), found.s.end()));
  Real worst = 0;
  for (std::int64_t column = 0; column < b.columns(); ++column) {
    std::vector<Wide<T>> r;
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      r.push_back(widen(b(i, column)));
      for (std::int64_t j = 0; j < a.columns(); ++j) {
        r.back() -= reference::product(widen(a(i, j)), widen(x(j, column)));
      }
    }
    std::vector<Wide<T>> of_x;
    for (std::int64_t j = 0; j < a.columns(); ++j) {
      of_x.push_back(widen(x(j, column)));
    }
    const Real length = norm_of(of_x);
    Real sum = 0;
    for (std::int64_t l = 0; l < rank; ++l) {
      Wide<T> along{0};
      for (std::int64_t i = 0; i < a.rows(); ++i) {
        along +=
            reference::product(reference::conjugate(left(i, l)), r[static_cast<std::size_t>(i)]);
      }
      // ||(A^H A + eta^2)^(-1/2) A^H r||, eta = ||r|| / ||x||, times ||x|| to divide by no zero
      const Real s = found.s[static_cast<std::size_t>(l)] * length;
      const Real eta = wide ? Real{0} : norm_of(r);
      const Real weight = s > 0 ? s / std::hypot(s, eta) : Real{0};
      sum += std::norm(along) * weight * weight;
    }
    if (!(sum == 0)) {
      worst = reference::larger(worst, std::sqrt(sum) / (size * length));
    }
  }
  return static_cast<double>(worst) / unit_roundoff<T>;
}

template <Scalar T>
ScaledPair<T> with_equal_columns(const DenseMatrix<T>& a) {
  ScaledPair<T> scaled{a, {}};
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    double most = 0.0;
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      most = std::max(most, double{std::abs(a(i, j))});
    }
    const int exponent = most > 0.0 ? -std::ilogb(most) : 0;
    scaled.exponents.push_back(exponent);
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      scaled.a(i, j) = reference::narrow<T>(reference::widen(a(i, j)) *
                                            std::ldexp(reference::WideReal<T>{1}, exponent));
    }
  }
  return scaled;
}

template <Scalar T>
DenseMatrix<T> ScaledPair<T>::unknowns(const DenseMatrix<T>& x) const {
  DenseMatrix<T> other = x;
  for (std::int64_t j = 0; j < x.columns(); ++j) {
    for (std::int64_t i = 0; i < x.rows(); ++i) {
      other(i, j) = reference::narrow<T>(
          reference::widen(x(i, j)) *
          std::ldexp(reference::WideReal<T>{1}, -exponents[static_cast<std::size_t>(i)]));
    }
  }
  return other;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                \
  template std::vector<QrCase<T>> qr_zoo(std::int64_t, std::int64_t);                            \
  template DenseMatrix<T> sides_for(const QrCase<T>&);                                           \
  template double q_ratio(const DenseMatrix<T>&);                                                \
  template double qr_ratio(const DenseMatrix<T>&, const DenseMatrix<T>&, const DenseMatrix<T>&); \
  template double least_squares_ratio(const DenseMatrix<T>&, const DenseMatrix<T>&,              \
                                      const DenseMatrix<T>&, std::int64_t);                      \
  template ScaledPair<T> with_equal_columns(const DenseMatrix<T>&);                              \
  template struct ScaledPair<T>;
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::testing
