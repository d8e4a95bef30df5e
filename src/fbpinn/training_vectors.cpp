#include "fbpinn/training_vectors.hpp"

#include "fbpinn/lists.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace shardsolve::fbpinn::training {
namespace {

/// state := factor * state + addend, many times at once.
struct Steps {
  std::uint64_t factor = 1;
  std::uint64_t addend = 0;

  std::uint64_t operator()(std::uint64_t state) const { return factor * state + addend; }
  /// These steps, then `others`.
  Steps then(const Steps& others) const { return {others.factor * factor, others(addend)}; }
};

/// A step taken so many times, by squares.
Steps taken(Steps step, std::int64_t times) {
  Steps all;
  for (; times > 0; times /= 2, step = step.then(step)) {
    if (times % 2 != 0) {
      all = all.then(step);
    }
  }
  return all;
}

}  // namespace

Numbers<double> zero_jets(std::int64_t count, const sparse::ForEach& each) {
  Numbers<double> jets(static_cast<std::size_t>(count));
  each_range(count, each, [&](std::int64_t first, std::int64_t last) {
    std::fill(jets.begin() + first, jets.begin() + last, 0.0);
  });
  return jets;
}

/// Jets that look random, of the size of 1: a residual that is linear has the same derivatives
/// there as at 0.
Numbers<double> other_jets(std::int64_t count, const sparse::ForEach& each) {
  constexpr Steps step{6364136223846793005U, 1442695040888963407U};
  Numbers<double> jets(static_cast<std::size_t>(count));
  each_range(count, each, [&](std::int64_t first, std::int64_t last) {
    std::uint64_t state = taken(step, first)(0x853c49e6748fea9bU);
    for (std::int64_t i = first; i < last; ++i) {
      state = step(state);
      jets[static_cast<std::size_t>(i)] = static_cast<double>(state >> 11U) * 0x1p-52 - 1.0;
    }
  });
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

void add_to(std::span<double> x, std::span<const double> y, double factor) {
  for (std::size_t k = 0; k < x.size(); ++k) {
    x[k] += factor * y[k];
  }
}

}  // namespace shardsolve::fbpinn::training
