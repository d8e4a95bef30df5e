// Levenberg-Marquardt on all weights.

#include "fbpinn/networks.hpp"
#include "fbpinn/pairs.hpp"
#include "fbpinn/weight_rows.hpp"
#include "tests/support/process_meshes.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/fbpinn.hpp>
#include <shardsolve/mesh.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {
namespace {

using std::numbers::pi;
using testing::expect_error;
using Equations = LevenbergMarquardtOptions::Equations;

const std::vector<Interval> plane{{0, 1}, {0, 1}};

Problem few_units(const Mlp& mlp = {.hidden = {4}}) {
  Problem problem(Boxes::regular(plane, {2, 2}, 2.9), mlp);
  problem.constrain([](auto x, auto v) { return x[0] * (1 - x[0]) * x[1] * (1 - x[1]) * v; });
  problem.add("interior", grid(plane, {12, 12}), [](Coordinates x, const auto& u) {
    return u(0, 0) + u(1, 1) + 2 * pi * pi * std::sin(pi * x[0]) * std::sin(pi * x[1]);
  });
  return problem;
}

/// sin(w xi + b), as an Mlp of one layer has it, by functions of the caller's own.
class SinUnits {
 public:
  SinUnits(Boxes boxes, std::int64_t units) : boxes_(std::move(boxes)), units_(units) {}

  OwnUnits made(std::vector<double> start) const {
    OwnUnits own{.count = units_, .parameters = 3 * units_, .start = std::move(start)};
    own.jets = [*this](const JetSet& set, std::int64_t box, const double* w, std::int64_t points,
                       const double* x, double* jets) {
      for (std::int64_t p = 0; p < points; ++p) {
        for (std::int64_t unit = 0; unit < units_; ++unit) {
          for (int d = 0; d < set.size(); ++d) {
            *jets++ = at(set[d], box, w, unit, x + 2 * p)[0];
          }
        }
      }
    };
    own.pull_back = [*this](const JetSet& set, std::int64_t box, const double* w,
                            std::int64_t points, const double* x, std::int64_t sums,
                            const double* factors, double* by_parameters) {
      std::fill_n(by_parameters, points * sums * 3 * units_, 0.0);
      for (std::int64_t row = 0; row < points * sums; ++row, by_parameters += 3 * units_) {
        for (std::int64_t unit = 0; unit < units_; ++unit) {
          for (int d = 0; d < set.size(); ++d) {
            const auto found = at(set[d], box, w, unit, x + 2 * (row / sums));
            by_parameters[2 * unit] += *factors * found[1];
            by_parameters[2 * unit + 1] += *factors * found[2];
            by_parameters[2 * units_ + unit] += *factors++ * found[3];
          }
        }
      }
    };
    return own;
  }

 private:
  /// A derivative by the coordinates, and its derivatives by both weights and the bias.
  std::array<double, 4> at(const MultiIndex& order, std::int64_t box, const double* w,
                           std::int64_t unit, const double* x) const {
    double z = w[2 * units_ + unit];
    std::array<double, 2> xi{};
    std::array<double, 2> rate{};
    double power = 1.0;
    int n = 0;
    for (std::size_t axis = 0; axis < 2; ++axis) {
      rate[axis] = 1.0 / boxes_.half_width(box)[axis];
      xi[axis] = (x[axis] - boxes_.center(box)[axis]) * rate[axis];
      z += w[2 * unit + static_cast<std::int64_t>(axis)] * xi[axis];
      power *= std::pow(w[2 * unit + static_cast<std::int64_t>(axis)] * rate[axis], order[axis]);
      n += order[axis];
    }
    const double value = power * std::sin(z + n * pi / 2);
    const double slope = power * std::cos(z + n * pi / 2);
    return {value, value * order[0] / w[2 * unit] + slope * xi[0],
            value * order[1] / w[2 * unit + 1] + slope * xi[1], slope};
  }

  Boxes boxes_;
  std::int64_t units_;
};

double error_of_few_units(Mesh& mesh, const Trained& trained) {
  const std::vector<double> points = grid(plane, {17, 19});
  std::vector<double> exact;
  for (std::size_t i = 0; i < points.size(); i += 2) {
    exact.push_back(std::sin(pi * points[i]) * std::sin(pi * points[i + 1]));
  }
  return relative_error(trained.evaluate(mesh, points), exact);
}

TEST(FbpinnWeightRows, EveryActivationAndLayer_AgreesWithDifferences) {
  const JetSet set = JetSet::full(2, 4);
  const Boxes boxes = Boxes::regular(plane, {2, 1}, 2.0);
  const std::vector<double> points{0.3, 0.4, 0.45, 0.8};
  const int equations = 2;
  const int fields = 2;
  std::vector<double> a;
  for (int i = 0; i < 2 * equations * fields * set.size(); ++i) {
    a.push_back(std::sin(1.7 * i) / set.factorial(i % set.size()) * 1e-2);
  }
  const PointsInBoxes at = points_in_boxes(boxes, set, points.data(), 2, 0, {});
  const auto which = at.pairs.points_of(0);
  ASSERT_EQ(which.size(), 2U);
  const PointsInBox<double> in_box{points.data(), at.inverse_sums.data(), which.data(), 2};
  for (const Activation activation :
       {Activation::tanh, Activation::sin, Activation::sigmoid, Activation::softplus,
        Activation::gaussian, Activation::silu}) {
    for (const std::vector<std::int64_t>& hidden :
         {std::vector<std::int64_t>{3}, std::vector<std::int64_t>{3, 2}}) {
      const Mlp mlp{.hidden = hidden, .activation = activation};
      std::vector<double> weights = mlp.random_weights(2, 1, 5);
      std::vector<double> last;
      for (int i = 0; i < fields * mlp.features(); ++i) {
        last.push_back(std::cos(0.9 * i));
      }
      const std::int64_t rows = equations * 2;
      // The residual's linear part, by feature_rows.
      const auto values = [&](const std::vector<double>& w) {
        std::vector<double> matrix(static_cast<std::size_t>(rows * fields * mlp.features()));
        feature_rows(set, mlp, BoxFeatures<double>{boxes.center(0), boxes.half_width(0), w.data()},
                     in_box, a.data(), 0, equations, fields, matrix.data(), rows);
        std::vector<double> sums(static_cast<std::size_t>(rows), 0.0);
        for (std::size_t k = 0; k < last.size(); ++k) {
          for (std::size_t i = 0; i < sums.size(); ++i) {
            sums[i] += last[k] * matrix[k * sums.size() + i];
          }
        }
        return sums;
      };
      std::vector<double> found(static_cast<std::size_t>(rows) * weights.size());
      weight_rows(set, mlp,
                  BoxFeatures<double>{boxes.center(0), boxes.half_width(0), weights.data()}, in_box,
                  a.data(), 0, equations, fields, last.data(), found.data(), rows);
      constexpr double step = 1e-5;
      for (std::size_t w = 0; w < weights.size(); ++w) {
        std::vector<double> shifted = weights;
        shifted[w] += step;
        const std::vector<double> above = values(shifted);
        shifted[w] -= 2 * step;
        const std::vector<double> below = values(shifted);
        for (std::size_t i = 0; i < above.size(); ++i) {
          const double slope = (above[i] - below[i]) / (2 * step);
          EXPECT_NEAR(found[w * above.size() + i], slope, 1e-6 * (1 + std::abs(slope)))
              << static_cast<int>(activation) << ' ' << hidden.size() << ' ' << w << ' ' << i;
        }
      }
    }
  }
}

TEST(FbpinnLevenbergMarquardt, FewUnits_GetFarBelowLeastSquares) {
  Mesh mesh = Mesh::host(2);
  const Trained least = least_squares(mesh, few_units());
  const Trained all = levenberg_marquardt(mesh, few_units(), {.max_steps = 40});
  EXPECT_LT(all.loss, 0.1 * least.loss);
  EXPECT_LT(error_of_few_units(mesh, all), 0.2 * error_of_few_units(mesh, least));
  EXPECT_EQ(all.outcome.status, Status::not_converged);
  EXPECT_EQ(all.descent.ended, DampedDescent::End::limit);
  EXPECT_EQ(all.descent.steps, 40);
  ASSERT_EQ(all.descent.losses.size(), 41U);
  for (std::size_t i = 1; i < all.descent.losses.size(); ++i) {
    EXPECT_LT(all.descent.losses[i], all.descent.losses[i - 1]);
  }
}

TEST(FbpinnLevenbergMarquardt, BothSpaces_TakeTheSameSteps) {
  Mesh mesh = Mesh::serial();
  const auto trained = [&](Equations equations) {
    return levenberg_marquardt(mesh, few_units(), {.max_steps = 10, .equations = equations});
  };
  const Trained parameters = trained(Equations::of_parameters);
  const Trained samples = trained(Equations::of_samples);
  EXPECT_FALSE(parameters.descent.in_samples);
  EXPECT_TRUE(samples.descent.in_samples);
  for (std::size_t i = 0; i < samples.descent.losses.size(); ++i) {
    EXPECT_NEAR(samples.descent.losses[i] / parameters.descent.losses[i], 1.0, 1e-4) << i;
  }
}

TEST(FbpinnLevenbergMarquardt, OwnUnits_AreTrainedAsTheBuiltInOnes) {
  Mesh mesh = Mesh::host(2);
  const Mlp built_in{.hidden = {4}, .activation = Activation::sin};
  const std::vector<double> start = built_in.random_weights(2, 4, 0);
  const Mlp own = Mlp::of(SinUnits(Boxes::regular(plane, {2, 2}, 2.9), 4).made(start));
  const LevenbergMarquardtOptions options{.max_steps = 10};
  const Trained expected = levenberg_marquardt(mesh, few_units(built_in), options);
  const Trained found = levenberg_marquardt(mesh, few_units(own), options);
  EXPECT_EQ(found.descent.steps, 10);
  EXPECT_LT(found.loss, 0.9 * found.losses[1]);
  for (std::size_t i = 0; i < found.descent.losses.size(); ++i) {
    EXPECT_NEAR(found.descent.losses[i] / expected.descent.losses[i], 1.0, 1e-4) << i;
  }
  ASSERT_EQ(found.hidden_weights.size(), start.size());
  EXPECT_NE(found.hidden_weights, start);
  EXPECT_NEAR(error_of_few_units(mesh, found) / error_of_few_units(mesh, expected), 1.0, 1e-2);
}

TEST(FbpinnLevenbergMarquardt, AtAMinimum_EndsWithOk) {
  // One unit and one constant cannot do more than a handful of steps.
  Mesh mesh = Mesh::serial();
  Problem problem(Boxes::regular({{0, 1}}, {1}, 2.0), {.hidden = {1}});
  problem.add("data", grid({{0, 1}}, {30}),
              [](Coordinates x, const auto& u) { return u() - x[0] * x[0]; });
  const Trained trained = levenberg_marquardt(
      mesh, problem, {.max_steps = 500, .gradient_tolerance = 1e-5, .step_tolerance = 1e-7});
  EXPECT_TRUE(trained.outcome.ok());
  EXPECT_NE(trained.descent.ended, DampedDescent::End::limit);
  EXPECT_LT(trained.descent.steps, 500);
}

// The largest cosine of all rows together is 6e-5 there.
TEST(FbpinnLevenbergMarquardt, GradientBesideAHeavyCondition_IsNotSmall) {
  Mesh mesh = Mesh::host(2);
  Problem problem(Boxes::regular({{0, 1}}, {2}, 2.9), {.hidden = {4}});
  problem.add("interior", grid({{0, 1}}, {60}), [](Coordinates x, const auto& u) {
    return u(0, 0) + u() * u() * u() - 5 * std::sin(7 * x[0]);
  });
  problem.add_data(
      "ends", {0.0, 1.0}, {1.0, -0.5}, [](Coordinates, const auto& u) { return u() * 1.0; }, 1e7);
  const Trained trained = levenberg_marquardt(mesh, problem, {.max_steps = 3});
  EXPECT_EQ(trained.outcome.status, Status::not_converged);
  EXPECT_GT(trained.descent.gradient, 0.1);
}

// Squares of products of rows and columns are below the range.
TEST(FbpinnLevenbergMarquardt, GradientOfSmallEquations_IsThatOfLargeOnes) {
  Mesh mesh = Mesh::host(2);
  const auto gradient_in = [&](double unit) {
    Problem problem(Boxes::regular({{0, 1}}, {2}, 2.9), {.hidden = {4}});
    problem.add("interior", grid({{0, 1}}, {30}), [=](Coordinates x, const auto& u) {
      return unit * (u(0, 0) + u() * u() * u() - 5 * std::sin(7 * x[0]));
    });
    problem.add("ends", {0.0, 1.0},
                [=](Coordinates x, const auto& u) { return unit * (u() - 1 + x[0]); });
    return levenberg_marquardt(mesh, problem, {.max_steps = 1}).descent.gradient;
  };
  const double gradient = gradient_in(1.0);
  EXPECT_GT(gradient, 0.0);
  for (const int exponent : {-275, 255}) {
    EXPECT_GT(gradient_in(std::ldexp(1.0, exponent)), 1e-3 * gradient) << exponent;
  }
}

TEST(FbpinnLevenbergMarquardt, Coefficients_AreTrainedToo) {
  Mesh mesh = Mesh::serial();
  Problem problem(Boxes::regular({{0, 1}}, {2}, 2.9), {.hidden = {4}});
  const ScalarCoefficient rate = problem.add_coefficient("rate", 1.0);
  problem.add("interior", grid({{0, 1}}, {60}),
              [=](Coordinates, const auto& u, const auto& c) { return u(0) + c(rate) * u(); });
  const std::vector<double> points = grid({{0, 1}}, {12});
  std::vector<double> values;
  for (const double x : points) {
    values.push_back(std::exp(-2 * x));
  }
  problem.add_data("data", points, values, [](Coordinates, const auto& u) { return u() * 1.0; });
  const Trained least = least_squares(mesh, problem, {.rank_tolerance = 1e-8});
  for (const Equations equations : {Equations::of_parameters, Equations::of_samples}) {
    const Trained all =
        levenberg_marquardt(mesh, problem, {.max_steps = 60, .equations = equations});
    EXPECT_LE(all.loss, least.loss);
    EXPECT_NEAR(all.coefficient("rate")[0], 2.0, 1e-3);
  }
}

TEST(FbpinnLevenbergMarquardt, AnyRanksAndProcesses_GiveTheSameBits) {
  Mesh serial = Mesh::serial();
  for (const Equations equations : {Equations::of_parameters, Equations::of_samples}) {
    const LevenbergMarquardtOptions options{.max_steps = 3, .equations = equations};
    const Trained expected = levenberg_marquardt(serial, few_units(), options);
    Mesh mesh = Mesh::host(3);
    EXPECT_EQ(levenberg_marquardt(mesh, few_units(), options).hidden_weights,
              expected.hidden_weights);
    testing::ProcessMeshes meshes(2);
    const auto errors = meshes.together([&](Mesh& one, std::int64_t rank) {
      const Trained trained = levenberg_marquardt(one, few_units(), options);
      EXPECT_EQ(trained.hidden_weights, expected.hidden_weights) << rank;
      EXPECT_EQ(trained.last_layer, expected.last_layer) << rank;
    });
    for (const auto& error : errors) {
      EXPECT_FALSE(error) << error->what();
    }
  }
}

TEST(FbpinnBadInput, WrongDescents_AreRefusedWithWords) {
  Mesh mesh = Mesh::serial();
  const auto refused = [&](const LevenbergMarquardtOptions& options,
                           const std::vector<std::string>& words) {
    expect_error([&] { levenberg_marquardt(mesh, few_units(), options); },
                 ErrorKind::invalid_argument, words);
  };
  refused({.max_steps = 0}, {"max_steps = 0"});
  refused({.gradient_tolerance = 0}, {"gradient_tolerance = 0"});
  refused({.step_tolerance = 2}, {"step_tolerance = 2"});
  refused({.first_damping = -1}, {"first_damping = -1"});
  const auto zeros = [](const JetSet& set, std::int64_t, const double*, std::int64_t points,
                        const double*,
                        double* jets) { std::fill_n(jets, points * 2 * set.size(), 0.0); };
  Problem own(Boxes::regular(plane, {1, 1}, 2.0), Mlp::of({.count = 2, .jets = zeros}));
  own.add("data", grid(plane, {5, 5}), [](Coordinates, const auto& u) { return u() - 1.0; });
  expect_error([&] { levenberg_marquardt(mesh, own); }, ErrorKind::invalid_argument,
               {"own", "least_squares"});
  Problem few(Boxes::regular(plane, {1, 1}, 2.0),
              Mlp::of({.count = 2, .jets = zeros, .parameters = 3, .start = {1, 2}}));
  few.add("data", grid(plane, {5, 5}), [](Coordinates, const auto& u) { return u() - 1.0; });
  expect_error([&] { least_squares(mesh, few); }, ErrorKind::invalid_argument,
               {"2 parameters", "3 for each of 1 boxes"});
  expect_error([&] { Mlp::of({.count = 2, .jets = zeros, .parameters = -1}); },
               ErrorKind::invalid_argument, {"-1 parameters"});
  expect_error([] { Mlp::of({}); }, ErrorKind::invalid_argument, {"without a function"});
}

/// Data that ask for roots of negative numbers.
TEST(FbpinnLevenbergMarquardt, StepThatNothingCanMakeSmaller_IsNotConverged) {
  Mesh mesh = Mesh::serial();
  const std::vector<Interval> line{{0, 1}};
  Problem problem(Boxes::regular(line, {2}, 2.9), {.hidden = {2}});
  const std::vector<double> points = grid(line, {60});
  std::vector<double> values;
  for (const double x : points) {
    values.push_back(0.2 * std::sin(6 * x));
  }
  problem.add_data("data", points, values, [](auto, const auto& u) { return sqrt(u() + 0.1); });
  const Trained trained = levenberg_marquardt(mesh, problem);
  ASSERT_EQ(trained.descent.ended, DampedDescent::End::step);
  ASSERT_GT(trained.descent.gradient, 1e-3);
  EXPECT_EQ(trained.outcome.status, Status::not_converged);
  EXPECT_NE(trained.warnings.front().find("the gradient is not 0"), std::string::npos);
}

}  // namespace
}  // namespace shardsolve::fbpinn
