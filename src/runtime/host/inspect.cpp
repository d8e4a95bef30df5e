#include "runtime/host/inspect.hpp"

#include "core/each_dtype.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::runtime::host {
namespace {

/// Two sums side by side: what every vector unit has. Fixed, so that the order of the additions is
/// fixed, and with it the bits.
using Pair [[gnu::vector_size(2 * sizeof(double))]] = double;
constexpr std::int64_t reals_a_pair = 2;

/// Columns taken together, so that v and the product are read once for all of them.
constexpr std::int64_t columns_at_once = 4;

Pair load(const double* from) { return Pair{from[0], from[1]}; }

Pair magnitude(Pair x) { return Pair{std::abs(x[0]), std::abs(x[1])}; }

/// The columns [j, j + columns) of `a`, whose entries are taken as reals: for complex ones the real
/// and the imaginary parts alternate. `weights` and `product` hold one value for each such real.
template <Scalar T, std::int64_t columns>
void take_columns(MatrixView<const T> a, std::int64_t j, const double* weights,
                  const std::array<double, columns_at_once>& column_weights, double scale,
                  double* product, const Inspection& result) {
  constexpr std::int64_t parts = is_complex<T> ? 2 : 1;
  std::array<const RealOf<T>*, columns> entries{};
  for (std::int64_t c = 0; c < columns; ++c) {
    entries[c] = reinterpret_cast<const RealOf<T>*>(a.data() + (j + c) * a.stride());
  }
  std::array<Pair, columns> size{};
  std::array<Pair, columns> probe{};
  const auto take = [&](Pair x, std::int64_t c, Pair weight, Pair& sum) {
    x *= scale;
    sum += column_weights[c] * x;
    probe[c] += weight * x;
    if constexpr (parts == 2) {
      const Pair squares = x * x;
      size[c][0] += std::sqrt(squares[0] + squares[1]);
    } else {
      size[c] += magnitude(x);
    }
  };
  const std::int64_t reals = parts * a.rows();
  const std::int64_t whole = reals / reals_a_pair * reals_a_pair;
  for (std::int64_t i = 0; i < whole; i += reals_a_pair) {
    const Pair weight = load(weights + i);
    Pair sum = load(product + i);
    for (std::int64_t c = 0; c < columns; ++c) {
      take(Pair{double{entries[c][i]}, double{entries[c][i + 1]}}, c, weight, sum);
    }
    product[i] = sum[0];
    product[i + 1] = sum[1];
  }
  if (whole < reals) {
    Pair sum{product[whole], 0.0};
    for (std::int64_t c = 0; c < columns; ++c) {
      take(Pair{double{entries[c][whole]}, 0.0}, c, Pair{weights[whole], 0.0}, sum);
    }
    product[whole] = sum[0];
  }
  for (std::int64_t c = 0; c < columns; ++c) {
    result.column_sums[j + c] = size[c][0] + size[c][1];
    if constexpr (parts == 2) {
      result.probe[2 * (j + c)] = probe[c][0];
      result.probe[2 * (j + c) + 1] = -probe[c][1];
    } else {
      result.probe[j + c] = probe[c][0] + probe[c][1];
    }
  }
}

}  // namespace

template <Scalar T>
void inspect_columns(MatrixView<const T> a, std::int64_t first, const double* weights, double scale,
                     const Inspection& result) {
  constexpr std::int64_t parts = is_complex<T> ? 2 : 1;
  double* const product = result.partial_product;
  std::vector<double> row_weights(static_cast<std::size_t>(parts * a.rows()));
  for (std::int64_t i = 0; i < parts * a.rows(); ++i) {
    row_weights[static_cast<std::size_t>(i)] = weights[i / parts];
    product[i] = 0.0;
  }
  std::int64_t j = 0;
  for (; j + columns_at_once <= a.columns(); j += columns_at_once) {
    const double* weight = weights + first + j;
    take_columns<T, columns_at_once>(a, j, row_weights.data(),
                                     {weight[0], weight[1], weight[2], weight[3]}, scale, product,
                                     result);
  }
  for (; j < a.columns(); ++j) {
    take_columns<T, 1>(a, j, row_weights.data(), {weights[first + j]}, scale, product, result);
  }
}

#define SHARDSOLVE_INSTANTIATE(T)                                                         \
  template void inspect_columns(MatrixView<const T>, std::int64_t, const double*, double, \
                                const Inspection&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::host
