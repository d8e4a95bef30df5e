// Secular equations: their roots and weights, judged in wider arithmetic.

#include "runtime/host/secular.hpp"

#include "reference/dense_matrix.hpp"
#include "support/dtypes.hpp"
#include "support/secular_cases.hpp"
#include "support/tridiagonal_zoo.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

namespace shardsolve::testing::tridiagonal {
namespace {

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
      Equation<Real> f(secular_cases[0], count);
      (in_poles ? f.poles : f.weights)[static_cast<std::size_t>(count / 2)] = nan;
      for (const SecularRoot<Real>& root : all_roots(f.equation)) {
        EXPECT_EQ(root.origin, SecularRoot<Real>::not_found);
      }
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing::tridiagonal
