#include "runtime/host/general_multiply.hpp"

#include "core/each_dtype.hpp"
#include "runtime/host/twofold.hpp"
#include "runtime/host/wide_lanes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstddef>
#include <type_traits>

// All that takes or returns vectors is inlined: no caller of another file depends on how.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace shardsolve::runtime::host {
namespace general_multiply {
namespace {

using wide::across;
using wide::all;
using wide::Lanes;
using wide::lanes;
using wide::leading_bits;
using wide::load;
using wide::store;
using wide::Sum;
using wide::swapped;

template <Scalar T>
constexpr std::int64_t parts = is_complex<T> ? 2 : 1;

[[gnu::always_inline]] inline Lanes magnitude(Lanes x) { return x < 0.0 ? -x : x; }

/// Moduli. Of complex numbers, whose parts lie side by side, in both lanes max(p, q, (p + q) /
/// sqrt(2)) for moduli p, q of the parts: at least cos(pi / 8) times the modulus, and never more.
template <Scalar T>
[[gnu::always_inline]] inline Lanes modulus(Lanes x) {
  const Lanes part = magnitude(x);
  if constexpr (!is_complex<T>) {
    return part;
  } else {
    const Lanes other = swapped(part);
    const Lanes most = part > other ? part : other;
    const Lanes mean = (part + other) * 0.70710678118654752;  // below 1 / sqrt(2)
    return most > mean ? most : mean;
  }
}

/// The same of one number.
template <Scalar T>
RealOf<T> modulus_of(T value) {
  const RealOf<T> p = std::abs(std::real(value));
  const RealOf<T> q = std::abs(std::imag(value));
  return is_complex<T> ? std::max({p, q, (p + q) * RealOf<T>(0.70710677)}) : p;
}

/// As many reals as there are, zeros behind them.
template <class Real>
[[gnu::always_inline]] inline Lanes load_some(const Real* from, std::int64_t count) {
  Lanes value{};
  for (std::int64_t l = 0; l < std::min(count, lanes); ++l) {
    value[l] = double{from[l]};
  }
  return value;
}
template <class Real>
[[gnu::always_inline]] inline Lanes load_up_to(const Real* from, std::int64_t count) {
  return count >= lanes ? load(from) : load_some(from, count);
}

/// A sum in two numbers of the dtype.
template <class Real>
void split(const Twofold<double>& sum, Real& high, Real& low) {
  const double leading = leading_bits<Real>(sum.high + sum.low);
  high = static_cast<Real>(leading);
  low = static_cast<Real>((sum.high - leading) + sum.low);
}

/// Rows taken together, so that their sums stay in the nearest cache.
constexpr std::int64_t max_reals = 512;

/// Sums of up to max_reals reals, row by row.
template <Scalar T>
struct RowSums {
  using Real = RealOf<T>;
  std::array<double, max_reals> high{};
  std::array<double, max_reals> low{};
  std::array<double, max_reals> sizes{};

  /// Adds a column, `reals` long, times x.
  [[gnu::always_inline]] void add(const Real* column, std::int64_t reals, T x, double x_size) {
    const Lanes re = all(double{std::real(x)});
    const double im = double{std::imag(x)};
    for (std::int64_t i = 0; i < reals; i += lanes) {
      const auto at = static_cast<std::size_t>(i);
      const Lanes a = load_up_to(column + i, reals - i);
      Sum<Real> sum;
      sum.high = load(&high[at]);
      sum.low = load(&low[at]);
      sum.add_product(a, re);
      if constexpr (is_complex<T>) {
        sum.add_product(swapped(a), Lanes{-im, im, -im, im});
      }
      store(sum.high, &high[at]);
      store(sum.low, &low[at]);
      store(load(&sizes[at]) + modulus<T>(a) * all(x_size), &sizes[at]);
    }
  }
};

template <Scalar T>
[[gnu::always_inline]] inline double size_of(T x) {
  return modulus<T>(Lanes{double{std::real(x)}, double{std::imag(x)}, 0.0, 0.0})[0];
}

/// y and sizes of some rows of A and one column of X.
template <Scalar T>
[[gnu::always_inline]] inline void multiply_rows(MatrixView<const T> a, const T* x,
                                                 RealOf<T>* y_high, RealOf<T>* y_low,
                                                 double* sizes) {
  const std::int64_t reals = parts<T> * a.rows();
  RowSums<T> sums;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    sums.add(reinterpret_cast<const RealOf<T>*>(a.data() + j * a.stride()), reals, x[j],
             size_of(x[j]));
  }
  for (std::int64_t i = 0; i < reals; ++i) {
    const auto at = static_cast<std::size_t>(i);
    split<RealOf<T>>({sums.high[at], sums.low[at]}, y_high[i], y_low[i]);
  }
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    sizes[i] = sums.sizes[static_cast<std::size_t>(parts<T> * i)];
  }
}

template <Scalar T>
[[gnu::always_inline]] inline void multiply_all(MatrixView<const T> a, MatrixView<const T> x,
                                                MatrixView<T> y, MatrixView<double> sizes) {
  constexpr std::int64_t max_rows = max_reals / parts<T>;
  const std::int64_t k = x.columns();
  const auto reals = [](T* first) { return reinterpret_cast<RealOf<T>*>(first); };
  for (std::int64_t row = 0; row < a.rows(); row += max_rows) {
    const std::int64_t rows = std::min(max_rows, a.rows() - row);
    const MatrixView<const T> some(a.data() + row, rows, a.columns(), a.stride());
    for (std::int64_t c = 0; c < k; ++c) {
      multiply_rows(some, x.data() + c * x.stride(), reals(&y(row, c)), reals(&y(row, k + c)),
                    &sizes(row, c));
    }
  }
}

/// op(a)^T of one column of A times x.
template <Scalar T>
[[gnu::always_inline]] inline void dot(Op op, const RealOf<T>* a, const RealOf<T>* x,
                                       std::int64_t reals, T& high, T& low, double& size) {
  using Real = RealOf<T>;
  Sum<Real> re;
  Sum<Real> im;
  Lanes sizes{};
  // a x = (a_re x_re - a_im x_im, a_re x_im + a_im x_re), with conj(a) the second signs turned
  const bool adjoint = op == Op::conjugate_transpose;
  const double sign = adjoint ? 1.0 : -1.0;
  const Lanes of_re{1.0, sign, 1.0, sign};
  const Lanes of_im{1.0, -sign, 1.0, -sign};
  for (std::int64_t i = 0; i < reals; i += lanes) {
    const Lanes a_some = load_up_to(a + i, reals - i);
    const Lanes x_some = load_up_to(x + i, reals - i);
    if constexpr (is_complex<T>) {
      re.add_product(a_some, x_some * of_re);
      im.add_product(a_some, swapped(x_some) * of_im);
    } else {
      re.add_product(a_some, x_some);
    }
    sizes += modulus<T>(a_some) * modulus<T>(x_some);
  }
  auto* const high_parts = reinterpret_cast<Real*>(&high);
  auto* const low_parts = reinterpret_cast<Real*>(&low);
  split<Real>(across(re), high_parts[0], low_parts[0]);
  if constexpr (is_complex<T>) {
    split<Real>(across(im), high_parts[1], low_parts[1]);
  }
  size = (sizes[0] + sizes[1] + sizes[2] + sizes[3]) / static_cast<double>(parts<T>);
}

template <Scalar T>
[[gnu::always_inline]] inline void dot_all(Op op, MatrixView<const T> a, MatrixView<const T> x,
                                           MatrixView<T> y, MatrixView<double> sizes) {
  const std::int64_t k = x.columns();
  const auto reals = [](const T* first) { return reinterpret_cast<const RealOf<T>*>(first); };
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t c = 0; c < k; ++c) {
      dot<T>(op, reals(a.data() + j * a.stride()), reals(x.data() + c * x.stride()),
             parts<T> * a.rows(), y(j, c), y(j, k + c), sizes(j, c));
    }
  }
}

#if defined(__x86_64__) && !defined(__FMA__)
// The same operations, with the instructions that most processors have: the same bits.
template <Scalar T>
[[gnu::target("avx2,fma")]] void multiply_by_fma(MatrixView<const T> a, MatrixView<const T> x,
                                                 MatrixView<T> y, MatrixView<double> sizes) {
  multiply_all(a, x, y, sizes);
}
template <Scalar T>
[[gnu::target("avx2,fma")]] void dot_by_fma(Op op, MatrixView<const T> a, MatrixView<const T> x,
                                            MatrixView<T> y, MatrixView<double> sizes) {
  dot_all(op, a, x, y, sizes);
}
bool has_fma() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif

}  // namespace
}  // namespace general_multiply

template <Scalar T>
void multiply_wide(MatrixView<const T> a, MatrixView<const T> x, MatrixView<T> y,
                   MatrixView<double> sizes) {
#if defined(__x86_64__) && !defined(__FMA__)
  if (general_multiply::has_fma()) {
    general_multiply::multiply_by_fma(a, x, y, sizes);
    return;
  }
#endif
  general_multiply::multiply_all(a, x, y, sizes);
}

template <Scalar T>
void multiply_transposed_wide(Op op, MatrixView<const T> a, MatrixView<const T> x, MatrixView<T> y,
                              MatrixView<double> sizes) {
#if defined(__x86_64__) && !defined(__FMA__)
  if (general_multiply::has_fma()) {
    general_multiply::dot_by_fma(op, a, x, y, sizes);
    return;
  }
#endif
  general_multiply::dot_all(op, a, x, y, sizes);
}

template <Scalar T>
void moduli(MatrixView<const T> source, MatrixView<RealOf<T>> target) {
  for (std::int64_t j = 0; j < source.columns(); ++j) {
    for (std::int64_t i = 0; i < source.rows(); ++i) {
      target(i, j) = general_multiply::modulus_of(source(i, j));
    }
  }
}

template <Scalar T>
void row_sums(double scale, MatrixView<const T> a, double* sums, double* largest) {
  using Wide = std::conditional_t<is_complex<T>, std::complex<double>, double>;
  std::fill_n(sums, a.rows(), 0.0);
  std::fill_n(largest, a.rows(), 0.0);  // of complex numbers squares, at first
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    for (std::int64_t i = 0; i < a.rows(); ++i) {
      const Wide entry = static_cast<Wide>(a(i, j)) * scale;
      if constexpr (is_complex<T>) {
        const double square = entry.real() * entry.real() + entry.imag() * entry.imag();
        sums[i] += std::sqrt(square);
        largest[i] = std::max(largest[i], square);
      } else {
        sums[i] += std::abs(entry);
        largest[i] = std::max(largest[i], std::abs(entry));
      }
    }
  }
  if constexpr (is_complex<T>) {
    std::transform(largest, largest + a.rows(), largest,
                   [](double square) { return std::sqrt(square); });
  }
}

#define SHARDSOLVE_INSTANTIATE(T)                                                      \
  template void multiply_wide(MatrixView<const T>, MatrixView<const T>, MatrixView<T>, \
                              MatrixView<double>);                                     \
  template void multiply_transposed_wide(Op, MatrixView<const T>, MatrixView<const T>, \
                                         MatrixView<T>, MatrixView<double>);           \
  template void moduli(MatrixView<const T>, MatrixView<RealOf<T>>);                    \
  template void row_sums(double, MatrixView<const T>, double*, double*);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::host
