/// A non-negative number that may lie beyond the range of double.
#pragma once

#include <cmath>
#include <utility>

namespace shardsolve {

/// fraction * 2^exponent: norms of matrices near the ends of the floating-point range.
struct Scaled {
  double fraction = 0.0;
  int exponent = 0;

  friend Scaled operator*(Scaled a, Scaled b) {
    a = a.normalised();
    b = b.normalised();
    return Scaled{a.fraction * b.fraction, a.exponent + b.exponent}.normalised();
  }
  friend Scaled operator+(Scaled a, Scaled b) {
    a = a.normalised();
    b = b.normalised();
    if (a.fraction == 0.0 || (b.fraction != 0.0 && b.exponent > a.exponent)) {
      std::swap(a, b);
    }
    return Scaled{a.fraction + std::ldexp(b.fraction, b.exponent - a.exponent), a.exponent}
        .normalised();
  }
  /// a / b as a double; 0 / 0 is 0.
  friend double ratio(Scaled a, Scaled b) {
    a = a.normalised();
    b = b.normalised();
    return a.fraction == 0.0 ? 0.0 : std::ldexp(a.fraction / b.fraction, a.exponent - b.exponent);
  }
  /// The same number with a fraction in [1/2, 1), or 0.
  Scaled normalised() const {
    int shift = 0;
    const double part = std::frexp(fraction, &shift);
    return {part, fraction == 0.0 ? 0 : exponent + shift};
  }
  double value() const { return std::ldexp(fraction, exponent); }
};

}  // namespace shardsolve
