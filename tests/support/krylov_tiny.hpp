/// Small ill-conditioned systems, and their residuals with twice the digits.
#pragma once

#include "support/krylov_sparse.hpp"

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

namespace shardsolve::testing::krylov_problems {

/// A = (I - 2 v v^H / ||v||^2) A, or A (I - ...) if not `from_left`; v random.
template <Scalar T>
void reflect(System<T>& system, std::int64_t stream, bool from_left) {
  const std::int64_t n = system.n;
  std::vector<T> v;
  RealOf<T> square = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    v.push_back(random_scalar<T>(stream, i));
    square += std::norm(v.back());
  }
  for (std::int64_t other = 0; other < n; ++other) {
    const auto at = [&](std::int64_t i) -> T& {
      return system.a[static_cast<std::size_t>(from_left ? i * n + other : other * n + i)];
    };
    const auto conjugate = [](T x) {
      if constexpr (is_complex<T>) {
        return std::conj(x);
      } else {
        return x;
      }
    };
    T product{};
    for (std::int64_t i = 0; i < n; ++i) {
      const T factor = v[static_cast<std::size_t>(i)];
      product += (from_left ? conjugate(factor) : factor) * at(i);
    }
    product *= RealOf<T>{2} / square;
    for (std::int64_t i = 0; i < n; ++i) {
      const T factor = v[static_cast<std::size_t>(i)];
      at(i) -= product * (from_left ? factor : conjugate(factor));
    }
  }
}

/// n x n with singular values from 1 to 10^-decades; Hermitian and positive definite if asked for,
/// as long as 10^-decades is more than n u.
template <Scalar T>
System<T> tiny_system(std::int64_t n, double decades, std::int64_t seed, bool hermitian) {
  std::vector<double> d;
  for (std::int64_t i = 0; i < n; ++i) {
    d.push_back(
        n == 1 ? 1.0
               : std::pow(10.0, -decades * static_cast<double>(i) / static_cast<double>(n - 1)));
  }
  System<T> system = diagonal_system<T>("tiny", d);
  for (std::int64_t k = 0; k < 2; ++k) {
    reflect(system, 40 + 10 * seed + k, true);
    reflect(system, 40 + 10 * seed + (hermitian ? k : 5 + k), false);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = [&](std::int64_t row, std::int64_t column) -> T& {
      return system.a[static_cast<std::size_t>(row * n + column)];
    };
    for (std::int64_t j = 0; hermitian && j <= i; ++j) {
      if constexpr (is_complex<T>) {
        at(i, j) = i == j ? T{at(i, i).real()} : std::conj(at(j, i));
      } else {
        at(i, j) = at(j, i);
      }
    }
    system.b[static_cast<std::size_t>(i)] = random_scalar<T>(40 + 10 * seed + 9, i);
  }
  return system;
}

/// A sum of products with twice the digits of double.
class TwofoldSum {
 public:
  void add(double term) {
    const double next = high_ + term;
    const double taken = next - high_;
    low_ += (high_ - (next - taken)) + (term - taken);
    high_ = next;
  }
  void add_product(double a, double b) {
    const double product = a * b;
    add(product);
    low_ += std::fma(a, b, -product);
  }
  double value() const { return high_ + low_; }

 private:
  double high_ = 0.0;
  double low_ = 0.0;
};

/// ||b - A x||_2 / ||b||_2, with A x in twice the digits of double.
template <Scalar T>
double twofold_residual_of(const System<T>& system, const std::vector<T>& x) {
  long double above = 0;
  long double below = 0;
  for (std::int64_t i = 0; i < system.n; ++i) {
    const T b = system.b[static_cast<std::size_t>(i)];
    TwofoldSum re;
    TwofoldSum im;
    re.add(std::real(b));
    im.add(std::imag(b));
    for (std::int64_t j = 0; j < system.n; ++j) {
      const T a = system.entry(i, j);
      const T factor = x[static_cast<std::size_t>(j)];
      re.add_product(-std::real(a), std::real(factor));
      re.add_product(std::imag(a), std::imag(factor));
      im.add_product(-std::real(a), std::imag(factor));
      im.add_product(-std::imag(a), std::real(factor));
    }
    above += static_cast<long double>(re.value()) * re.value();
    above += static_cast<long double>(im.value()) * im.value();
    below += std::norm(std::complex<long double>(b));
  }
  return static_cast<double>(std::sqrt(above / below));
}

}  // namespace shardsolve::testing::krylov_problems
