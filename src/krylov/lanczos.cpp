#include "krylov/lanczos.hpp"

#include "core/each_dtype.hpp"
#include "runtime/krylov/program.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <type_traits>

namespace shardsolve::krylov {
namespace lanczos_steps {
namespace {

template <Scalar T>
using Wide = std::conditional_t<is_complex<T>, std::complex<double>, double>;

double square(double x) { return x * x; }
double square(std::complex<double> x) { return x.real() * x.real() + x.imag() * x.imag(); }
/// Re(conj(x) y).
double real_product(double x, double y) { return x * y; }
double real_product(std::complex<double> x, std::complex<double> y) {
  return x.real() * y.real() + x.imag() * y.imag();
}

template <Scalar T>
std::vector<Wide<T>> start_vector(std::int64_t n) {
  std::vector<Wide<T>> v;
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (is_complex<T>) {
      v.emplace_back(random_number(6, i), random_number(7, i));
    } else {
      v.push_back(random_number(6, i));
    }
  }
  return v;
}

/// A power of two that brings the largest part of A to about 1: squares of products leave the range
/// of a double where entries are far from its ends.
template <Scalar T>
double scale_of(const CsrMatrix<T>& a) {
  double largest = 0.0;
  for (const T& value : a.values) {
    const Wide<T> wide = static_cast<Wide<T>>(value);
    for (const double part : {std::abs(std::real(wide)), std::abs(std::imag(wide))}) {
      largest = std::isfinite(part) ? std::max(largest, part) : largest;
    }
  }
  return largest > 0.0 ? std::ldexp(1.0, std::clamp(-std::ilogb(largest), -1020, 1020)) : 1.0;
}

/// Row of scale A x.
template <Scalar T>
Wide<T> row_product(const CsrMatrix<T>& a, double scale, std::size_t row,
                    const std::vector<Wide<T>>& x) {
  Wide<T> sum{};
  for (auto k = static_cast<std::size_t>(a.row_pointers[row]);
       k < static_cast<std::size_t>(a.row_pointers[row + 1]); ++k) {
    sum += (scale * static_cast<Wide<T>>(a.values[k])) *
           x[static_cast<std::size_t>(a.column_indices[k])];
  }
  return sum;
}

/// How many eigenvalues are below x: negative pivots of T - x.
std::int64_t count_below(const Tridiagonal& matrix, double x) {
  std::int64_t count = 0;
  double pivot = 1.0;
  for (std::size_t i = 0; i < matrix.diagonal.size(); ++i) {
    const double off = i == 0 ? 0.0 : matrix.off_diagonal[i - 1];
    pivot = matrix.diagonal[i] - x - off * (off / pivot);
    if (pivot == 0.0) {
      pivot = std::numeric_limits<double>::min();
    }
    count += pivot < 0.0 ? 1 : 0;
  }
  return count;
}

}  // namespace
}  // namespace lanczos_steps

double eigenvalue(const Tridiagonal& matrix, std::int64_t which) {
  double radius = 0.0;  // Gershgorin's circles
  for (std::size_t i = 0; i < matrix.diagonal.size(); ++i) {
    const double left = i == 0 ? 0.0 : std::abs(matrix.off_diagonal[i - 1]);
    const double right = i + 1 == matrix.diagonal.size() ? 0.0 : std::abs(matrix.off_diagonal[i]);
    radius = std::max(radius, std::abs(matrix.diagonal[i]) + left + right);
  }
  double low = -radius;
  double high = radius;
  for (int step = 0; step < 200; ++step) {
    const double middle = low + 0.5 * (high - low);
    if (!(low < middle) || !(middle < high)) {
      break;
    }
    (lanczos_steps::count_below(matrix, middle) > which ? high : low) = middle;
  }
  return high;
}

template <Scalar T>
Tridiagonal lanczos(const CsrMatrix<T>& a, const std::vector<double>& d, std::int64_t steps) {
  using lanczos_steps::Wide;
  const auto n = static_cast<std::size_t>(a.rows);
  const double scale = lanczos_steps::scale_of(a);
  const auto weight = [&](std::size_t i) { return d.empty() ? 1.0 : scale * d[i]; };
  std::vector<Wide<T>> v = lanczos_steps::start_vector<T>(a.rows);
  std::vector<Wide<T>> before(n);
  std::vector<Wide<T>> w(n);
  const auto norm = [&](const std::vector<Wide<T>>& x) {
    double sum = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      sum += weight(i) * lanczos_steps::square(x[i]);
    }
    return std::sqrt(sum);
  };
  const double start = norm(v);
  for (Wide<T>& value : v) {
    value /= start;
  }
  Tridiagonal result;
  double beta = 0.0;
  for (std::int64_t step = 0; step < std::min(steps, a.rows); ++step) {
    // w = D^-1 A v - beta v-,  alpha = v^H A v,  w -= alpha v,  v+ = w / ||w||
    double alpha = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      const Wide<T> product = lanczos_steps::row_product(a, scale, i, v);
      alpha += lanczos_steps::real_product(v[i], product);
      w[i] = product / weight(i) - beta * before[i];
    }
    for (std::size_t i = 0; i < n; ++i) {
      w[i] -= alpha * v[i];
    }
    beta = norm(w);
    if (!std::isfinite(alpha) || !std::isfinite(beta)) {
      break;
    }
    result.diagonal.push_back(alpha);
    result.off_diagonal.push_back(beta);
    // Exhausted, to rounding.
    if (!(beta > 1e-14 * std::abs(eigenvalue(result, result.size() - 1)))) {
      break;
    }
    std::swap(before, v);
    for (std::size_t i = 0; i < n; ++i) {
      v[i] = w[i] / beta;
    }
  }
  if (d.empty()) {  // otherwise D has the scale, too
    for (std::vector<double>* const part : {&result.diagonal, &result.off_diagonal}) {
      for (double& value : *part) {
        value /= scale;
      }
    }
  }
  return result;
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template Tridiagonal lanczos(const CsrMatrix<T>&, const std::vector<double>&, std::int64_t);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
