#include "dense/svd/weights.hpp"

#include <algorithm>
#include <cmath>

namespace shardsolve::dense::svd {
namespace {

/// The best ones for values in [l, 1]; c is (a^2 + 2 a - 3) / 4.
Weights best_for(double l, double largest_c) {
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

}  // namespace

std::vector<Weights> weights_from(double least, double rounding, double largest_c) {
  std::vector<Weights> all;
  for (double l = least; 1.0 - l > rounding;) {
    const Weights w = best_for(l, largest_c);
    all.push_back(w);
    l = std::min(1.0, l * (w.a + w.b * l * l) / (1.0 + w.c * l * l));
  }
  return all;
}

}  // namespace shardsolve::dense::svd
