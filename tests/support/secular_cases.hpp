/// Secular equations whose poles and weights are of many sizes.
#pragma once

#include "runtime/secular_equation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace shardsolve::testing::tridiagonal {

using runtime::SecularEquation;
using runtime::SecularRoot;
using Wide = long double;

/// How far apart poles are and how large weights are, as powers of ten below the largest.
struct SecularCase {
  std::string name;
  double least_gap = 0;
  double least_weight = 0;
  double rho = 1.3;
};

inline const std::vector<SecularCase> secular_cases{{"alike", -1, 0, 1.3},
                                                    {"close_poles", -12, 0, 0.01},
                                                    {"small_weights", -1, -12, 1.3},
                                                    {"all_at_once", -10, -8, 1.9}};

template <class Real>
struct Equation {
  std::vector<Real> poles;
  std::vector<Real> weights;
  SecularEquation<Real> equation;

  Equation(const SecularCase& secular_case, std::int64_t count) {
    constexpr double fewer_digits = std::is_same_v<Real, float> ? 0.4 : 1.0;
    std::mt19937 engine(static_cast<std::uint32_t>(count));
    const auto power = [&](double least) {
      return std::pow(10.0, fewer_digits * least * static_cast<double>(engine()) / 4294967296.0);
    };
    auto pole = Real{-1};
    Wide norm = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      poles.push_back(pole);
      const Real next =
          pole + static_cast<Real>(2 * power(secular_case.least_gap) / static_cast<double>(count));
      pole = next > pole ? next : std::nextafter(pole, Real{9});
      weights.push_back(
          static_cast<Real>(power(secular_case.least_weight) * (i % 3 == 1 ? -1 : 1)));
      norm += Wide(weights.back()) * Wide(weights.back());
    }
    for (Real& weight : weights) {
      weight = static_cast<Real>(Wide(weight) / std::sqrt(norm));
    }
    equation = {poles.data(), weights.data(), count, static_cast<Real>(secular_case.rho)};
  }

  /// |1 / rho + sum_i w_i^2 / (d_i - x)| over the sum of the magnitudes.
  Wide relative_value(const SecularRoot<Real>& root) const {
    Wide sum = 1 / Wide(equation.rho);
    Wide size = sum;
    for (std::size_t i = 0; i < poles.size(); ++i) {
      const Wide distance =
          (Wide(poles[i]) - Wide(poles[static_cast<std::size_t>(root.origin)])) - Wide(root.offset);
      const Wide term = Wide(weights[i]) * Wide(weights[i]) / distance;
      sum += term;
      size += std::abs(term);
    }
    return std::abs(sum) / size;
  }
};

/// Calls visit(equation) for all cases and sizes.
template <class Real, class Visit>
void for_each_equation(Visit visit) {
  for (const SecularCase& secular_case : secular_cases) {
    for (const std::int64_t count : {1, 2, 3, 7, 50, 300}) {
      SCOPED_TRACE(secular_case.name + " " + std::to_string(count));
      visit(Equation<Real>(secular_case, count));
    }
  }
}

}  // namespace shardsolve::testing::tridiagonal
