/// Sparse products from their definition.
#pragma once

#include "reference/wide.hpp"

#include <shardsolve/sparse.hpp>

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::reference {

/// A x and |A| |x|, with which errors are compared, in more digits than T has.
template <Scalar T>
struct WideProduct {
  std::vector<Wide<T>> product;
  std::vector<WideReal<T>> size;
};

template <Scalar T>
WideProduct<T> multiply(const CsrMatrix<T>& a, const std::vector<T>& x) {
  WideProduct<T> y;
  for (std::size_t row = 0; row < static_cast<std::size_t>(a.rows); ++row) {
    Wide<T> sum{};
    WideReal<T> size{};
    for (auto k = static_cast<std::size_t>(a.row_pointers[row]);
         k < static_cast<std::size_t>(a.row_pointers[row + 1]); ++k) {
      const Wide<T> term =
          widen(a.values[k]) * widen(x[static_cast<std::size_t>(a.column_indices[k])]);
      sum += term;
      size += std::abs(term);
    }
    y.product.push_back(sum);
    y.size.push_back(size);
  }
  return y;
}

/// The same, summed in the order of runtime/sparse_row_sum.hpp by std::fma: to the bit.
template <Scalar T>
std::vector<T> multiply_in_lanes(const CsrMatrix<T>& a, const std::vector<T>& x,
                                 std::int64_t lanes) {
  using Real = RealOf<T>;
  std::vector<T> y;
  for (std::size_t row = 0; row < static_cast<std::size_t>(a.rows); ++row) {
    std::vector<Real> re(static_cast<std::size_t>(lanes));
    std::vector<Real> im(re);
    const auto begin = static_cast<std::size_t>(a.row_pointers[row]);
    for (auto k = begin; k < static_cast<std::size_t>(a.row_pointers[row + 1]); ++k) {
      const std::size_t j = (k - begin) % re.size();
      const T entry = a.values[k];
      const T factor = x[static_cast<std::size_t>(a.column_indices[k])];
      re[j] = std::fma(std::real(entry), std::real(factor), re[j]);
      if constexpr (is_complex<T>) {
        re[j] = std::fma(-entry.imag(), factor.imag(), re[j]);
        im[j] = std::fma(entry.real(), factor.imag(), im[j]);
        im[j] = std::fma(entry.imag(), factor.real(), im[j]);
      }
    }
    for (std::size_t distance = re.size() / 2; distance > 0; distance /= 2) {
      for (std::size_t j = 0; j < distance; ++j) {
        re[j] += re[j + distance];
        im[j] += im[j + distance];
      }
    }
    if constexpr (is_complex<T>) {
      y.push_back({re[0], im[0]});
    } else {
      y.push_back(re[0]);
    }
  }
  return y;
}

}  // namespace shardsolve::reference
