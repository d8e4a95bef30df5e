/// A matrix of known eigenvalues and random eigenvectors, cheap to evaluate entry by entry.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <vector>

namespace shardsolve::matgen {

/// A = Q diag(d) Q^H, with Q the product of four Householder reflectors with random vectors.
///
/// With Q = I - V T V^H (compact WY form) A is diagonal plus low rank,
///   A = diag(d) - V Y^H - Y V^H,  Y = diag(d) V T^H - V M / 2,  M = T (V^H diag(d) V) T^H,
/// so that an entry costs O(1) after O(n) preparation. Evaluated in long double: rounded to double
/// once, A stays positive definite up to a condition number of 0.1 / eps.
///
/// Value is long double or std::complex<long double>.
template <class Value>
class SpectralMatrix {
 public:
  SpectralMatrix() = default;
  SpectralMatrix(std::vector<long double> eigenvalues, std::uint64_t seed);

  /// Entry (i, j) with i >= j; the imaginary part of a diagonal entry may be rounding noise.
  Value lower(std::int64_t i, std::int64_t j) const;

 private:
  static constexpr std::int64_t reflectors = 4;
  using Small = std::array<std::array<Value, reflectors>, reflectors>;
  using Row = std::array<Value, reflectors>;

  void draw_reflectors(std::uint64_t seed);
  Small inner_products(bool weighted) const;
  Small triangular_factor() const;

  std::vector<long double> eigenvalues_;
  std::vector<Row> v_;  // row i of V
  std::vector<Row> y_;  // row i of Y
};

extern template class SpectralMatrix<long double>;
extern template class SpectralMatrix<std::complex<long double>>;

}  // namespace shardsolve::matgen
