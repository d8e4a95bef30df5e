#include "runtime/host/inspect.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace shardsolve::runtime::host {
namespace {

/// So many independent partial sums that the compiler may use vector registers; the order of the
/// additions is fixed, so the bits are too.
constexpr std::int64_t lanes = 4;
using Lanes = std::array<double, lanes>;

double total(const Lanes& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// What is summed over one column.
struct ColumnSums {
  Lanes size{};
  Lanes peak{};
  Lanes probe_real{};
  Lanes probe_imag{};
};

/// Takes the entries of `count` rows, at most one a lane: their real and imaginary parts alternate
/// in `entries`. Adds v_j times each to `product`.
template <std::int64_t parts, class Real>
void take_rows(std::int64_t count, const Real* entries, const double* signs, double scale,
               double column_sign, ColumnSums& sums, double* product) {
  for (std::int64_t l = 0; l < count; ++l) {
    const auto lane = static_cast<std::size_t>(l);
    const double re = scale * double{entries[parts * l]};
    product[parts * l] += column_sign * re;
    sums.probe_real[lane] += signs[l] * re;
    double size = std::abs(re);
    double peak = size;
    if constexpr (parts == 2) {
      const double im = scale * double{entries[parts * l + 1]};
      product[parts * l + 1] += column_sign * im;
      sums.probe_imag[lane] -= signs[l] * im;
      size = std::sqrt(re * re + im * im);
      peak = std::max(peak, std::abs(im));
    }
    sums.size[lane] += size;
    sums.peak[lane] = sums.peak[lane] >= peak ? sums.peak[lane] : peak;
  }
}

}  // namespace

template <Scalar T>
void inspect_columns(MatrixView<const T> a, std::int64_t first, const double* signs, double scale,
                     const Inspection& result) {
  constexpr std::int64_t parts = is_complex<T> ? 2 : 1;
  double* const product = result.partial_product;
  std::fill_n(product, parts * a.rows(), 0.0);
  const std::int64_t whole = a.rows() / lanes * lanes;
  for (std::int64_t j = 0; j < a.columns(); ++j) {
    const auto* column = reinterpret_cast<const RealOf<T>*>(a.data() + j * a.stride());
    const double column_sign = signs[first + j];
    ColumnSums sums;
    for (std::int64_t i = 0; i < whole; i += lanes) {
      take_rows<parts>(lanes, column + parts * i, signs + i, scale, column_sign, sums,
                       product + parts * i);
    }
    take_rows<parts>(a.rows() - whole, column + parts * whole, signs + whole, scale, column_sign,
                     sums, product + parts * whole);
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
