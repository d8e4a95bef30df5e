/// Vectors of sums of products in twice the precision, for kernels that read a matrix once.
#pragma once

#include "runtime/host/twofold.hpp"

#include <cstdint>
#include <type_traits>

// All that takes or returns vectors is inlined: no caller of another file depends on how.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace shardsolve::runtime::host::wide {

/// Sums side by side. Fixed, whatever the vector unit has, so that the order of the additions is
/// fixed, and with it the bits.
using Lanes [[gnu::vector_size(4 * sizeof(double))]] = double;
inline constexpr std::int64_t lanes = 4;

/// A sum of products of doubles: none of its roundings is lost but those of what they took.
struct SumOfDoubles : Twofold<Lanes> {
  [[gnu::always_inline]] void add_product(Lanes a, Lanes b) {
    const Lanes product = a * b;
    Lanes lost{};
    for (std::int64_t l = 0; l < lanes; ++l) {
      lost[l] = __builtin_fma(a[l], b[l], -product[l]);
    }
    add(product);
    low += lost;
  }
};
/// A sum of products of floats, which are exact in doubles.
struct SumOfFloats : Twofold<Lanes> {
  [[gnu::always_inline]] void add_product(Lanes a, Lanes b) { high += a * b; }
};
template <class Real>
using Sum = std::conditional_t<std::is_same_v<Real, double>, SumOfDoubles, SumOfFloats>;

template <class Real>
[[gnu::always_inline]] inline Lanes load(const Real* from) {
  return Lanes{double{from[0]}, double{from[1]}, double{from[2]}, double{from[3]}};
}
[[gnu::always_inline]] inline void store(Lanes value, double* to) {
  for (std::int64_t l = 0; l < lanes; ++l) {
    to[l] = value[l];
  }
}
[[gnu::always_inline]] inline Lanes all(double value) { return Lanes{value, value, value, value}; }
[[gnu::always_inline]] inline Lanes swapped(Lanes x) { return Lanes{x[1], x[0], x[3], x[2]}; }

/// The sums of all lanes, in a fixed order.
[[gnu::always_inline]] inline Twofold<double> across(const Twofold<Lanes>& sums) {
  Twofold<double> sum;
  for (std::int64_t l = 0; l < lanes; ++l) {
    sum.add(Twofold<double>{sums.high[l], sums.low[l]});
  }
  return sum;
}

/// As many bits as a Real has. T. J. Dekker, Numer. Math. 18 (1971) 224. (Not by a cast to float
/// and back, which GCC 12 takes for nothing where it makes two at a time.)
template <class Real>
double leading_bits(double x) {
  if constexpr (std::is_same_v<Real, double>) {
    return x;
  } else {
    const double scaled = x * (0x1p29 + 1);
    return scaled - (scaled - x);
  }
}

}  // namespace shardsolve::runtime::host::wide
