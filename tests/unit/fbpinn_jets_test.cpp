// Sets of derivatives, numbers that carry them, and the functions of these.

#include "tests/support/nested_jets.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/jet_scalars.hpp>
#include <shardsolve/jet_set.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace shardsolve::fbpinn {
namespace {

using testing::expect_error;
using testing::nested_derivative;

TEST(FbpinnJetSet, Full_HasAllInOrder) {
  const JetSet set = JetSet::full(2, 2);
  const std::vector<MultiIndex> expected{{0, 0}, {1, 0}, {0, 1}, {2, 0}, {1, 1}, {0, 2}};
  EXPECT_EQ(std::vector<MultiIndex>(set.indices().begin(), set.indices().end()), expected);
  EXPECT_EQ(JetSet::full(4, 4).size(), max_derivatives);
  EXPECT_EQ(JetSet::full(3, 2).size(), 10);
  EXPECT_EQ(JetSet(3).size(), 1);
}

TEST(FbpinnJetSet, Closure_HasWhatIsLowerAndNothingElse) {
  const JetSet set(2, {{2, 0}, {0, 2}});
  EXPECT_EQ(set.size(), 5);
  EXPECT_EQ(set.order(), 2);
  EXPECT_EQ(set.find({1, 1}), -1);
  EXPECT_EQ(set.find({0, 0}), 0);
  EXPECT_EQ(set.find({0, 2}), 4);
  EXPECT_EQ(set.find({4, 4}), -1);
  EXPECT_EQ(set.factorial(3), 2.0);
}

TEST(FbpinnJetSet, WrongDerivatives_AreRefused) {
  expect_error([] { JetSet(2, {{5, 0}}); }, ErrorKind::invalid_argument, {"order 5", "up to 4"});
  expect_error([] { JetSet(2, {{0, 0, 1}}); }, ErrorKind::invalid_argument, {"axis 2", "2 axes"});
  expect_error([] { JetSet::full(5, 1); }, ErrorKind::invalid_argument, {"5 axes", "1 to 4"});
  expect_error([] { JetSet::full(2, -1); }, ErrorKind::invalid_argument, {"order -1"});
}

/// Something that uses every operator and function.
template <class S>
S mixture(const std::vector<S>& x) {
  const S a = 1.5 + x[0] * x[1] - x[1] / 3.0;
  const S b = fbpinn::exp(x[0] * 0.3) * fbpinn::sin(x[1]) - fbpinn::cos(a) / (2.0 + x[0] * x[0]);
  const S c = fbpinn::tanh(b) + fbpinn::sqrt(a) * fbpinn::log(a + 2) - fbpinn::pow(a, 1.7);
  return c - fbpinn::sinh(x[0] * 0.5) * fbpinn::cosh(x[1]) + 2 / a + (1 - c) * -b;
}

TEST(FbpinnJetScalars, TaylorAndNestedDuals_GiveTheSameDerivatives) {
  const std::vector<double> x{0.7, -0.4};
  const JetSet set = JetSet::full(2, 4);
  std::vector<Taylor<double>> variables;
  for (int axis = 0; axis < 2; ++axis) {
    variables.push_back(Taylor<double>::variable(set, x[static_cast<std::size_t>(axis)], axis));
  }
  const Taylor<double> series = mixture(variables);
  for (int d = 0; d < set.size(); ++d) {
    const double expected = nested_derivative([](const auto& v) { return mixture(v); }, x, set[d]);
    EXPECT_NEAR(series[d] * set.factorial(d), expected, 1e-12 * (1 + std::abs(expected))) << d;
  }
}

TEST(FbpinnJetScalars, DualOfTaylor_IsTheDerivativeOfTheSeries) {
  // d/dv of g(x, v) as a polynomial about x, for v = 0.3 + the distance.
  const JetSet set = JetSet::full(1, 4);
  using Number = Dual<Taylor<double>>;
  const Number x(Taylor<double>::variable(set, 0.2, 0));
  Number v(Taylor<double>::variable(set, 0.3, 0));
  v.slope[0] = Taylor<double>(set, 1.0);
  const Number result = tanh(x * v) * v + exp(v);
  for (int d = 0; d < set.size(); ++d) {
    const auto slope = [](const auto& at) {
      const auto y = at[0] + 0.1;  // v along the line
      const auto t = fbpinn::tanh(at[0] * y);
      return (1 - t * t) * at[0] * y + t + fbpinn::exp(y);
    };
    EXPECT_NEAR(result.slope[0][d] * set.factorial(d), nested_derivative(slope, {0.2}, set[d]),
                1e-12);
  }
}

TEST(FbpinnJetScalars, Powers_AreZeroBeyondTheirOrderAlsoAtZero) {
  const JetSet set = JetSet::full(1, 4);
  const Taylor<double> square = pow(Taylor<double>::variable(set, 0.0, 0), 2.0);
  EXPECT_EQ(square[0], 0.0);
  EXPECT_EQ(square[1], 0.0);
  EXPECT_EQ(square[2], 1.0);
  EXPECT_EQ(square[3], 0.0);
  EXPECT_EQ(square[4], 0.0);
}

template <class F>
void expect_derivatives_of_each_other(const F& f, double x) {
  std::array<double, 7> here{};
  std::array<double, 7> above{};
  std::array<double, 7> below{};
  constexpr double h = 1e-5;
  f.derivatives(x, 7, here.data());
  f.derivatives(x + h, 7, above.data());
  f.derivatives(x - h, 7, below.data());
  for (std::size_t k = 0; k + 1 < 7; ++k) {
    const double slope = (above[k] - below[k]) / (2 * h);
    EXPECT_NEAR(here[k + 1], slope, 2e-7 * (1 + std::abs(slope))) << k + 1;
  }
}

TEST(FbpinnJetFunctions, EachDerivative_IsThatOfTheOneBefore) {
  for (const double x : {0.3, 0.9, 1.7}) {
    expect_derivatives_of_each_other(functions::Exp{}, x);
    expect_derivatives_of_each_other(functions::Sin{}, x);
    expect_derivatives_of_each_other(functions::Cos{}, x);
    expect_derivatives_of_each_other(functions::Sinh{}, x);
    expect_derivatives_of_each_other(functions::Cosh{}, x);
    expect_derivatives_of_each_other(functions::Tanh{}, x);
    expect_derivatives_of_each_other(functions::Log{}, x + 1);
    expect_derivatives_of_each_other(functions::Reciprocal{}, x + 1);
    expect_derivatives_of_each_other(functions::Power{2.5}, x + 1);
  }
}

}  // namespace
}  // namespace shardsolve::fbpinn
