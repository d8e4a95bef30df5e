#include "runtime/host/inspect.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace shardsolve::runtime::host {
namespace {

/// So many independent partial sums that the compiler may use vector registers; the order of the
/// additions is fixed, so the bits are too.
constexpr std::int64_t lanes = 8;
using Lanes = std::array<double, lanes>;

double total(const Lanes& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// What is summed over one column.
struct ColumnSums {
  Lanes size{};
  Lanes peak{};
  Lanes probe_real{};
  Lanes probe_imag{};

  void take(std::size_t lane, double re, double im, double sign) {
    const double largest = std::max(std::abs(re), std::abs(im));
    peak[lane] = peak[lane] >= largest ? peak[lane] : largest;
    size[lane] += im == 0.0 ? std::abs(re) : std::sqrt(re * re + im * im);
    probe_real[lane] += sign * re;
    probe_imag[lane] -= sign * im;
  }
};

}  // namespace

template <Scalar T>
void inspect_columns(MatrixView<const T> a, std::int64_t first, const double* signs, double scale,
                     const Inspection& result) {
  constexpr std::int64_t parts = is_complex<T> ? 2 : 1;
  double* const product = result.partial_product;
  std::fill_n(product, parts * a.rows(), 0.0);
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    const auto* column = reinterpret_cast<const RealOf<T>*>(a.data() + j * a.stride());
    const double column_sign = signs[first + j];
    ColumnSums sums;
    for (std::int64_t i0 = 0; i0 < a.rows(); i0 += lanes) {
      const std::int64_t count = std::min(lanes, a.rows() - i0);
      for (std::int64_t lane = 0; lane < count; ++lane) {
        const std::int64_t i = i0 + lane;
        const double re = scale * double{column[parts * i]};
        const double im = parts == 2 ? scale * double{column[parts * i + parts - 1]} : 0.0;
        sums.take(static_cast<std::size_t>(lane), re, im, signs[i]);
        product[parts * i] += column_sign * re;
        if constexpr (parts == 2) {
          product[parts * i + 1] += column_sign * im;
        }
      }
    }
    result.column_sums[j] = total(sums.size);
    result.column_peaks[j] = *std::max_element(sums.peak.begin(), sums.peak.end());
    result.probe[parts * j] = total(sums.probe_real);
    if constexpr (parts == 2) {
      result.probe[parts * j + 1] = total(sums.probe_imag);
    }
  }
}

template void inspect_columns(MatrixView<const float>, std::int64_t, const double*, double,
                              const Inspection&);
template void inspect_columns(MatrixView<const double>, std::int64_t, const double*, double,
                              const Inspection&);
template void inspect_columns(MatrixView<const std::complex<float>>, std::int64_t, const double*,
                              double, const Inspection&);
template void inspect_columns(MatrixView<const std::complex<double>>, std::int64_t, const double*,
                              double, const Inspection&);

}  // namespace shardsolve::runtime::host
