/// Small things that Gauss-Newton does with vectors.
#pragma once

#include "fbpinn/numbers.hpp"
#include "sparse/workers.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace shardsolve::fbpinn::training {

/// So many zeros.
Numbers<double> zero_jets(std::int64_t count, const sparse::ForEach& each);
/// Numbers that look random, from -1 to 1.
Numbers<double> other_jets(std::int64_t count, const sparse::ForEach& each);
/// Whether a difference is no more than rounding of the largest number.
bool is_rounding_of(double difference, double largest);
/// Whether they differ by no more than rounding of the largest.
bool are_nearly_equal(const std::vector<double>& a, const std::vector<double>& b);
double sum_of_squares(const std::vector<double>& x);
/// x += factor * y
void add_to(std::span<double> x, std::span<const double> y, double factor);

}  // namespace shardsolve::fbpinn::training
