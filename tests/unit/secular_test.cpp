// Secular equations: their roots and weights, judged in wider arithmetic.

#include "runtime/host/secular.hpp"

#include "reference/dense_matrix.hpp"
#include "support/dtypes.hpp"
#include "support/tridiagonal_zoo.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace shardsolve::testing::tridiagonal {
namespace {

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

const std::vector<SecularCase> cases{{"alike", -1, 0, 1.3},
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

template <class Real>
std::vector<SecularRoot<Real>> all_roots(const SecularEquation<Real>& equation) {
  std::vector<SecularRoot<Real>> roots;
  for (std::int64_t i = 0; i < equation.count; ++i) {
    roots.push_back(runtime::host::secular_root(equation, i));
  }
  return roots;
}

/// All eigenvectors, with the rows in another order.
template <class Real>
DenseMatrix<Real> all_vectors(SecularEquation<Real> equation,
                              const std::vector<SecularRoot<Real>>& roots,
                              const std::vector<Real>& weights) {
  equation.weights = weights.data();
  DenseMatrix<Real> vectors(equation.count, equation.count);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(equation.count));
  std::iota(rows.rbegin(), rows.rend(), std::int64_t{0});
  for (std::int64_t j = 0; j < equation.count; ++j) {
    runtime::host::make_secular_vector(equation, roots[static_cast<std::size_t>(j)], rows.data(),
                                       vectors.data() + j * equation.count);
  }
  return vectors;
}

template <class T>
class Secular : public ::testing::Test {};
TYPED_TEST_SUITE(Secular, RealDtypes, DtypeNames);

/// Calls visit(equation) for all cases and sizes.
template <class Real, class Visit>
void for_each_equation(Visit visit) {
  for (const SecularCase& secular_case : cases) {
    for (const std::int64_t count : {1, 2, 3, 7, 50, 300}) {
      SCOPED_TRACE(secular_case.name + " " + std::to_string(count));
      visit(Equation<Real>(secular_case, count));
    }
  }
}

TYPED_TEST(Secular, Roots_AlternateWithPolesAndSolveTheEquation) {
  using Real = TypeParam;
  for_each_equation<Real>([](const Equation<Real>& f) {
    const Wide limit = unit_roundoff<Real> * (16 + std::sqrt(static_cast<Wide>(f.equation.count)));
    for (std::int64_t i = 0; i < f.equation.count; ++i) {
      const SecularRoot<Real> root = runtime::host::secular_root(f.equation, i);
      const bool is_last = i + 1 == f.equation.count;
      ASSERT_TRUE(root.origin == i || (!is_last && root.origin == i + 1)) << i;
      ASSERT_TRUE(root.origin == i ? root.offset > 0 : root.offset < 0) << i;
      if (!is_last) {
        const Real gap =
            f.poles[static_cast<std::size_t>(i + 1)] - f.poles[static_cast<std::size_t>(i)];
        ASSERT_LE(std::abs(root.offset), gap / 2) << i;
      }
      ASSERT_LE(f.relative_value(root), limit) << i;
    }
  });
}

TYPED_TEST(Secular, WeightsOfTheRoots_MakeOrthogonalVectors) {
  using Real = TypeParam;
  for_each_equation<Real>([](const Equation<Real>& f) {
    const std::vector<SecularRoot<Real>> roots = all_roots(f.equation);
    std::vector<Real> weights(f.poles.size());
    const std::int64_t half = f.equation.count / 2;
    runtime::host::make_secular_weights(f.equation, roots.data(), half, f.equation.count - half,
                                        weights.data());
    runtime::host::make_secular_weights(f.equation, roots.data(), 0, half, weights.data());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      ASSERT_EQ(std::signbit(weights[i]), std::signbit(f.weights[i]));
      ASSERT_TRUE(std::isfinite(weights[i]) && weights[i] != 0) << i;
    }
    // Sums of n entries, each a sum of n products whose factors have been rounded n times
    const double n = static_cast<double>(f.equation.count);
    EXPECT_LE(orthogonality_ratio(all_vectors(f.equation, roots, weights)), 10 + 4 * n);
  });
}

TYPED_TEST(Secular, NotANumber_EndsTheSearch) {
  using Real = TypeParam;
  constexpr Real nan = std::numeric_limits<Real>::quiet_NaN();
  for (const std::int64_t count : {1, 2, 3, 50}) {
    for (const bool in_poles : {false, true}) {
      Equation<Real> f(cases[0], count);
      (in_poles ? f.poles : f.weights)[static_cast<std::size_t>(count / 2)] = nan;
      for (const SecularRoot<Real>& root : all_roots(f.equation)) {
        EXPECT_EQ(root.origin, SecularRoot<Real>::not_found);
      }
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing::tridiagonal
