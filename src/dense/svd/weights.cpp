#include "dense/svd/weights.hpp"

#include <algorithm>
#include <cmath>

namespace shardsolve::dense::svd {

double Weights::least_after(double least) const {
  const auto after = [this](double square) { return (a + b * square) / (1.0 + c * square); };
  double result = std::min(least * after(least * least), 1.0);
  // The derivative is 0 where b c y^2 + (3 b - a c) y + a = 0 for y = x^2; the larger root is a
  // minimum.
  const double p = a * c - 3.0 * b;
  const double discriminant = p * p - 4.0 * a * b * c;
  if (discriminant > 0.0) {
    const double square = (p + std::sqrt(discriminant)) / (2.0 * b * c);
    if (square > least * least && square < 1.0) {
      result = std::min(result, std::sqrt(square) * after(square));
    }
  }
  return result;
}

// c is (a^2 + 2 a - 3) / 4.
Weights weights_for(double least, double largest_c) {
  const double l = least;
  const double square = l * l;
  const double d = l < 1.0 ? std::cbrt(4.0 * (1.0 - square) / (square * square)) : 0.0;
  const double root = std::sqrt(1.0 + d);
  const double inside = 8.0 - 4.0 * d + 8.0 * (2.0 - square) / (square * root);
  Weights w;
  w.a = std::min(root + 0.5 * std::sqrt(std::max(inside, 0.0)),
                 2.0 * std::sqrt(1.0 + largest_c) - 1.0);
  w.b = 0.25 * (w.a - 1.0) * (w.a - 1.0);
  w.c = w.a + w.b - 1.0;
  return w;
}

std::vector<Weights> weights_from(double least, double rounding, double largest_c) {
  std::vector<Weights> all;
  for (double l = least; 1.0 - l > rounding;) {
    all.push_back(weights_for(l, largest_c));
    l = all.back().least_after(l);
  }
  return all;
}

}  // namespace shardsolve::dense::svd
