#include "dense/qr/solution.hpp"

#include <cmath>
#include <limits>

namespace shardsolve::dense::qr {

std::vector<std::int64_t> exponents_to_one(const std::vector<double>& maxima) {
  std::vector<std::int64_t> exponents;
  exponents.reserve(maxima.size());
  for (const double most : maxima) {
    exponents.push_back(most > 0.0 ? -std::ilogb(most) - 1 : 0);
  }
  return exponents;
}

double backward_error(double a, double x, double r, double projected, double adjoint) {
  if (r == 0.0) {
    return 0.0;
  }
  // ||A^H r|| / (||A|| ||r||): A is changed by r r^H A / r^H r
  double least = a > 0.0 ? adjoint / (a * r) : 0.0;
  if (x > 0.0 && a > 0.0) {
    // ||P r|| / (||A|| ||x||): by P r x^H / x^H x; and that with r for P r
    least = std::fmin(least, std::fmin(projected, r) / (a * x));
  }
  const bool in_range = std::isfinite(r) && std::isfinite(x) && std::isfinite(least);
  return in_range ? least : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace shardsolve::dense::qr
