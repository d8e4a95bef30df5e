#include "fbpinn/training_vectors.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace shardsolve::fbpinn::training {

/// Jets that look random, of the size of 1: a residual that is linear has the same derivatives
/// there as at 0.
std::vector<double> other_jets(std::size_t count) {
  std::vector<double> jets(count);
  std::uint64_t state = 0x853c49e6748fea9bU;
  for (double& value : jets) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = static_cast<double>(state >> 11U) * 0x1p-52 - 1.0;
  }
  return jets;
}

bool is_rounding_of(double difference, double largest) { return difference <= 1e-13 * largest; }

bool are_nearly_equal(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0.0;
  for (const double value : a) {
    largest = std::max(largest, std::abs(value));
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!is_rounding_of(std::abs(a[i] - b[i]), largest)) {
      return false;
    }
  }
  return true;
}

double sum_of_squares(const std::vector<double>& x) {
  double sum = 0.0;
  for (const double value : x) {
    sum += value * value;
  }
  return sum;
}

void add_to(std::vector<double>& x, const std::vector<double>& y, double factor) {
  for (std::size_t k = 0; k < x.size(); ++k) {
    x[k] += factor * y[k];
  }
}

}  // namespace shardsolve::fbpinn::training
