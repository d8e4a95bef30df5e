#include "matgen/spectrum.hpp"

#include "matgen/philox.hpp"

#include <cmath>
#include <utility>

namespace shardsolve::matgen {
namespace {

using Real = long double;
using Complex = std::complex<long double>;

// std::complex's product calls a library routine that repairs infinities; there are none here.
Real times_conjugate(Real a, Real b) { return a * b; }
Complex times_conjugate(const Complex& a, const Complex& b) {
  return {a.real() * b.real() + a.imag() * b.imag(), a.imag() * b.real() - a.real() * b.imag()};
}

Real conjugate(Real a) { return a; }
Complex conjugate(const Complex& a) { return std::conj(a); }

Real squared_modulus(Real a) { return a * a; }
Real squared_modulus(const Complex& a) { return std::norm(a); }

template <class Value>
Value random_value(std::uint64_t seed, std::int64_t i, std::int64_t j) {
  const auto [first, second] = uniform_pair(seed, Stream::reflector, i, j);
  if constexpr (std::is_same_v<Value, Real>) {
    return first;
  } else {
    return {first, second};
  }
}

}  // namespace

template <class Value>
SpectralMatrix<Value>::SpectralMatrix(std::vector<long double> eigenvalues, std::uint64_t seed)
    : eigenvalues_(std::move(eigenvalues)) {
  draw_reflectors(seed);
  const Small t = triangular_factor();
  const Small g = inner_products(true);
  // m = t g t^H; t is upper triangular, its zeros are stored
  Small m{};
  for (std::size_t a = 0; a < reflectors; ++a) {
    for (std::size_t b = 0; b < reflectors; ++b) {
      for (std::size_t p = 0; p < reflectors; ++p) {
        for (std::size_t q = 0; q < reflectors; ++q) {
          m[a][b] += t[a][p] * times_conjugate(g[p][q], t[b][q]);
        }
      }
    }
  }
  // y = diag(d) v t^H - v m / 2
  y_.resize(v_.size());
  for (std::size_t i = 0; i < v_.size(); ++i) {
    for (std::size_t r = 0; r < reflectors; ++r) {
      Value sum{};
      for (std::size_t q = 0; q < reflectors; ++q) {
        sum += eigenvalues_[i] * times_conjugate(v_[i][q], t[r][q]) - v_[i][q] * m[q][r] / Real{2};
      }
      y_[i][r] = sum;
    }
  }
}

template <class Value>
Value SpectralMatrix<Value>::lower(std::int64_t i, std::int64_t j) const {
  const auto row = static_cast<std::size_t>(i);
  const auto column = static_cast<std::size_t>(j);
  Value sum = i == j ? eigenvalues_[row] : Real{0};
  for (std::size_t r = 0; r < reflectors; ++r) {
    sum -= times_conjugate(v_[row][r], y_[column][r]);
    sum -= times_conjugate(y_[row][r], v_[column][r]);
  }
  return sum;
}

/// The columns of V: random directions of length 1.
template <class Value>
void SpectralMatrix<Value>::draw_reflectors(std::uint64_t seed) {
  v_.resize(eigenvalues_.size());
  for (std::size_t r = 0; r < reflectors; ++r) {
    Real squares = 0;
    for (std::size_t i = 0; i < v_.size(); ++i) {
      v_[i][r] =
          random_value<Value>(seed, static_cast<std::int64_t>(i), static_cast<std::int64_t>(r));
      squares += squared_modulus(v_[i][r]);
    }
    const Real length = std::sqrt(squares);
    for (Row& row : v_) {
      row[r] /= length;
    }
  }
}

/// V^H V, or V^H diag(d) V if weighted.
template <class Value>
typename SpectralMatrix<Value>::Small SpectralMatrix<Value>::inner_products(bool weighted) const {
  Small g{};
  for (std::size_t i = 0; i < v_.size(); ++i) {
    for (std::size_t p = 0; p < reflectors; ++p) {
      for (std::size_t q = 0; q < reflectors; ++q) {
        const Value product = conjugate(times_conjugate(v_[i][p], v_[i][q]));
        g[p][q] += weighted ? eigenvalues_[i] * product : product;
      }
    }
  }
  return g;
}

/// T of H_0 H_1 ... = I - V T V^H, with H_r = I - 2 v_r v_r^H (LAPACK's larft, forward):
/// column r is 2 in the diagonal and -2 T(0:r, 0:r) V(:, 0:r)^H v_r above.
template <class Value>
typename SpectralMatrix<Value>::Small SpectralMatrix<Value>::triangular_factor() const {
  const Small g = inner_products(false);
  Small t{};
  for (std::size_t r = 0; r < reflectors; ++r) {
    t[r][r] = Real{2};
    for (std::size_t p = 0; p < r; ++p) {
      Value sum{};
      for (std::size_t q = p; q < r; ++q) {
        sum += t[p][q] * g[q][r];
      }
      t[p][r] = Real{-2} * sum;
    }
  }
  return t;
}

template class SpectralMatrix<long double>;
template class SpectralMatrix<std::complex<long double>>;

}  // namespace shardsolve::matgen
