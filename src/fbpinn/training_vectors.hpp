/// Small things that Gauss-Newton does with vectors.
#pragma once

#include <cstddef>
#include <vector>

namespace shardsolve::fbpinn::training {

/// Numbers that look random, from -1 to 1.
std::vector<double> other_jets(std::size_t count);
/// Whether a difference is no more than rounding of the largest number.
bool is_rounding_of(double difference, double largest);
/// Whether they differ by no more than rounding of the largest.
bool are_nearly_equal(const std::vector<double>& a, const std::vector<double>& b);
double sum_of_squares(const std::vector<double>& x);
/// x += factor * y
void add_to(std::vector<double>& x, const std::vector<double>& y, double factor);

}  // namespace shardsolve::fbpinn::training
