// Unknown coefficients: found together with the solution, from data.

#include "tests/support/process_meshes.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/fbpinn.hpp>
#include <shardsolve/mesh.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

namespace shardsolve::fbpinn::inverse_tests {
namespace {

using std::numbers::pi;
using testing::expect_error;
using ::testing::HasSubstr;

const std::vector<Interval> unit_line{{0, 1}};
const std::vector<Interval> unit_square{{0, 1}, {0, 1}};

std::vector<double> values_at(const std::vector<double>& points, int axes,
                              const std::function<double(const double*)>& exact) {
  std::vector<double> values;
  for (std::size_t p = 0; p < points.size(); p += static_cast<std::size_t>(axes)) {
    values.push_back(exact(points.data() + p));
  }
  return values;
}

const auto value = [](Coordinates, const auto& u) { return u() * 1.0; };

/// u'' + a u = 0 for an unknown a = 25, u = cos(5 x) known at 20 points.
Problem oscillator_with_unknown_stiffness() {
  Problem problem(Boxes::regular(unit_line, {4}, 2.9), {.hidden = {12}});
  const ScalarCoefficient stiffness = problem.add_coefficient("stiffness", 20.0);
  problem.add(
      "interior", grid(unit_line, {160}),
      [=](Coordinates, const auto& u, const auto& c) { return u(0, 0) + c(stiffness) * u(); },
      1e-2);
  const std::vector<double> points = grid(unit_line, {20});
  problem.add_data("data", points,
                   values_at(points, 1, [](const double* x) { return std::cos(5 * *x); }), value);
  return problem;
}

TEST(FbpinnCoefficients, Scalar_IsFoundFromData) {
  Mesh mesh = Mesh::host(2);
  const Trained trained = least_squares(mesh, oscillator_with_unknown_stiffness());
  EXPECT_TRUE(trained.outcome.ok());
  EXPECT_FALSE(trained.is_linear);
  EXPECT_EQ(trained.coefficients_determined, 1);
  ASSERT_EQ(trained.coefficient("stiffness").size(), 1U);
  EXPECT_NEAR(trained.coefficient("stiffness")[0], 25.0, 1e-7);
  for (std::size_t i = 1; i < trained.losses.size(); ++i) {
    EXPECT_LT(trained.losses[i], trained.losses[i - 1]);
  }
}

TEST(FbpinnCoefficients, ScalarThatEntersLinearly_IsOneSolve) {
  // u'' = a f: u and a together are linear.
  Mesh mesh = Mesh::serial();
  Problem problem(Boxes::regular(unit_line, {4}, 2.9), {.hidden = {12}});
  const ScalarCoefficient strength = problem.add_coefficient("strength", 0.0);
  problem.constrain([](auto x, auto v) { return x[0] * (1 - x[0]) * v; });
  problem.add("interior", grid(unit_line, {160}), [=](Coordinates x, const auto& u, const auto& c) {
    return u(0, 0) - c(strength) * std::sin(pi * x[0]);
  });
  problem.add_data("data", {0.5}, {1.0}, value);
  const Trained trained = least_squares(mesh, problem);
  EXPECT_TRUE(trained.is_linear);
  EXPECT_EQ(trained.losses.size(), 2U);
  EXPECT_NEAR(trained.coefficient("strength")[0], -pi * pi, 1e-7);
}

double conductivity(double x) { return 1 + 0.5 * std::sin(3 * x); }

/// k(x) u' = f: k unknown, a straight line or a cubic between nine nodes.
Problem diffusion(Interpolation between) {
  Problem problem(Boxes::regular(unit_line, {6}, 2.9), {.hidden = {16}});
  const GridCoefficient k = problem.add_coefficient("k", unit_line[0], 9, {1.0}, between);
  problem.add("interior", grid(unit_line, {300}), [=](Coordinates x, const auto& u, const auto& c) {
    const double slope = 2 + std::cos(4 * x[0]);
    return u(0) * c(k, x[0]) - conductivity(x[0]) * slope;
  });
  const std::vector<double> points = grid(unit_line, {150});
  problem.add_data(
      "data", points,
      values_at(points, 1, [](const double* x) { return 2 * *x + std::sin(4 * *x) / 4; }), value,
      10.0);
  return problem;
}

TEST(FbpinnCoefficients, ScalarByConjugateGradients_IsTheSame) {
  Mesh mesh = Mesh::serial();
  const Trained trained =
      least_squares(mesh, oscillator_with_unknown_stiffness(),
                    {.rank_tolerance = 1e-6, .method = LinearMethod::cg, .cg_tolerance = 1e-8});
  EXPECT_TRUE(trained.is_by_cg);
  EXPECT_NEAR(trained.coefficient("stiffness")[0], 25.0, 1e-3);
}

TEST(FbpinnCoefficients, FunctionOnALine_IsFoundFromData) {
  Mesh mesh = Mesh::host(2);
  for (const auto& [between, most] :
       {std::pair(Interpolation::linear, 1e-2), std::pair(Interpolation::cubic, 2e-3)}) {
    const Trained trained = least_squares(mesh, diffusion(between));
    EXPECT_TRUE(trained.outcome.ok());
    EXPECT_EQ(trained.coefficients_determined, 9);
    const std::vector<double> k = trained.coefficient("k");
    for (int i = 0; i < 9; ++i) {
      EXPECT_NEAR(k[static_cast<std::size_t>(i)], conductivity(i / 8.0), most) << i;
    }
  }
}

/// u_tt = c(z)^2 u_zz + f on a square, c unknown.
Problem wave_of_unknown_speed() {
  const auto speed = [](double z) { return 1 + 0.3 * z; };
  const auto exact = [](const double* x) { return std::sin(2 * x[0] + 1) * std::cos(3 * x[1]); };
  Problem problem(Boxes::regular(unit_square, {3, 3}, 2.9), {.hidden = {24}});
  const GridCoefficient c = problem.add_coefficient("speed", {0, 1}, 5, {1.2});
  problem.add(
      "interior", grid(unit_square, {30, 30}),
      [=](Coordinates x, const auto& u, const auto& unknown) {
        const auto s = unknown(c, x[0]);
        const double rate = speed(x[0]);
        return u(1, 1) - s * s * u(0, 0) + (9 - 4 * rate * rate) * exact(x.data());
      },
      0.1);
  const std::vector<double> points = grid(unit_square, {12, 12});
  problem.add_data("data", points, values_at(points, 2, exact), value);
  return problem;
}

TEST(FbpinnCoefficients, SpeedOnASquare_IsFoundFromData) {
  Mesh mesh = Mesh::host(2);
  const Trained trained = least_squares(mesh, wave_of_unknown_speed());
  EXPECT_TRUE(trained.outcome.ok());
  const std::vector<double> speed = trained.coefficient("speed");
  for (int i = 0; i < 5; ++i) {
    EXPECT_NEAR(speed[static_cast<std::size_t>(i)], 1 + 0.3 * i / 4, 1e-3) << i;
  }
}

TEST(FbpinnCoefficients, AnyRanksAndProcesses_GiveTheSameBits) {
  Mesh serial = Mesh::serial();
  const Trained expected = least_squares(serial, diffusion(Interpolation::linear));
  for (const std::int64_t ranks : {2, 3}) {
    Mesh mesh = Mesh::host(ranks);
    const Trained trained = least_squares(mesh, diffusion(Interpolation::linear));
    EXPECT_EQ(trained.coefficients, expected.coefficients) << ranks;
    EXPECT_EQ(trained.last_layer, expected.last_layer) << ranks;
  }
  testing::ProcessMeshes meshes(2);
  const auto errors = meshes.together([&](Mesh& mesh, std::int64_t rank) {
    const Trained trained = least_squares(mesh, diffusion(Interpolation::linear));
    EXPECT_EQ(trained.coefficients, expected.coefficients) << rank;
    EXPECT_EQ(trained.last_layer, expected.last_layer) << rank;
  });
  for (const auto& error : errors) {
    EXPECT_FALSE(error) << error->what();
  }
}

TEST(FbpinnCoefficients, WhatNothingDetermines_StaysAndIsWarnedOf) {
  // Points only where x < 1/2: of five nodes two are read nowhere.
  Mesh mesh = Mesh::serial();
  Problem problem(Boxes::regular(unit_line, {2}, 2.9), {.hidden = {8}});
  const GridCoefficient f = problem.add_coefficient("f", {0, 1}, 5, {7.0});
  problem.add("interior", grid({{0, 0.5}}, {60}),
              [=](Coordinates x, const auto& u, const auto& c) { return u() - c(f, x[0]); });
  problem.add_data("data", grid(unit_line, {60}), std::vector<double>(60, 2.0), value);
  const Trained trained = least_squares(mesh, problem);
  EXPECT_EQ(trained.coefficients_determined, 3);
  const std::vector<double> values = trained.coefficient("f");
  EXPECT_NEAR(values[1], 2.0, 1e-6);
  EXPECT_EQ(values[3], 7.0);
  EXPECT_EQ(values[4], 7.0);
  EXPECT_THAT(trained.warnings, ::testing::Contains(HasSubstr("2 of 5 numbers")));
}

TEST(FbpinnCoefficients, InterpolationGoesThroughItsNodesAndIsDifferentiated) {
  const std::vector<double> nodes{1, 3, 2, 5};
  using Slopes = Dual<double, detail::directions>;
  const std::vector<std::int64_t> along{0, 1, 2, 3};
  for (const Interpolation between : {Interpolation::linear, Interpolation::cubic}) {
    const GridCoefficient f{0, 4, {0, 3}, between};
    const Coefficients<double> c{nodes};
    for (int i = 0; i < 4; ++i) {
      EXPECT_DOUBLE_EQ(c(f, static_cast<double>(i)), nodes[static_cast<std::size_t>(i)]);
    }
    EXPECT_DOUBLE_EQ(c(f, -1.0), 1.0);
    EXPECT_DOUBLE_EQ(c(f, 9.0), 5.0);
    Slopes at(1.3);
    at.slope[5] = 1.0;
    const Slopes result = Coefficients<Slopes>{nodes, along}(f, at);
    EXPECT_NEAR(result.slope[5], (c(f, 1.3 + 1e-6) - c(f, 1.3 - 1e-6)) / 2e-6, 1e-8);
    double sum = 0.0;
    for (std::size_t i = 0; i < 4; ++i) {
      sum += result.slope[i];
    }
    EXPECT_NEAR(sum, 1.0, 1e-14);
  }
}

TEST(FbpinnBadInput, WrongCoefficients_AreRefusedWithWords) {
  const auto refused = [](const std::function<void(Problem&)>& add,
                          const std::vector<std::string>& words) {
    Problem problem(Boxes::regular(unit_line, {2}, 2), {.hidden = {4}});
    expect_error([&] { add(problem); }, ErrorKind::invalid_argument, words);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused([&](Problem& p) { p.add_coefficient("a", nan); }, {"'a'", "nan"});
  refused([](Problem& p) { p.add_coefficient("a", {1, 0}, 3, {1.0}); }, {"[1, 0]"});
  refused([](Problem& p) { p.add_coefficient("a", {0, 1}, 0, {1.0}); }, {"0 nodes"});
  refused([](Problem& p) { p.add_coefficient("a", {0, 1}, 3, {1.0, 2.0}); },
          {"2 numbers", "1 or 3"});
  refused(
      [](Problem& p) {
        p.add_coefficient("a", 1.0);
        p.add_coefficient("a", 2.0);
      },
      {"two", "'a'"});
  refused(
      [](Problem& p) {
        p.add("t", {0.5}, value);
        p.add_coefficient("a", 1.0);
      },
      {"'a'", "after term 't'"});
  Mesh mesh = Mesh::serial();
  Problem problem(Boxes::regular(unit_line, {2}, 2), {.hidden = {4}});
  problem.add_coefficient("unread", 1.0);
  problem.add("t", grid(unit_line, {30}), value);
  expect_error([&] { least_squares(mesh, problem); }, ErrorKind::invalid_argument,
               {"'unread'", "no term depends"});
  expect_error(
      [&] {
        oscillator_with_unknown_stiffness();
        least_squares(mesh, oscillator_with_unknown_stiffness()).coefficient("b");
      },
      ErrorKind::invalid_argument, {"no coefficient 'b'"});
}

}  // namespace
}  // namespace shardsolve::fbpinn::inverse_tests
