// What a training says of its answer: the loss between the points, what is left, what is
// determined.

#include "tests/support/backend.hpp"
#include "tests/support/process_meshes.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/fbpinn.hpp>
#include <shardsolve/mesh.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <vector>

namespace shardsolve::fbpinn {
namespace {

using std::numbers::pi;
using ::testing::Contains;
using testing::expect_error;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<Interval> unit_line{{0, 1}};
const std::vector<Interval> unit_square{{0, 1}, {0, 1}};

/// CPU devices, or one GPU if the tests run on those.
Mesh some_devices() { return testing::test_gpus().empty() ? Mesh::host(2) : testing::make_mesh(1); }

/// u'' = -4 pi^2 sin(2 pi x), whose solution is sin(2 pi x).
Problem wave_on_a_line(double overlap, std::int64_t points = 240) {
  Problem problem(Boxes::regular(unit_line, {6}, overlap), {.hidden = {12}});
  problem.constrain([](auto x, auto v) { return x[0] * (1 - x[0]) * v; });
  problem.add("interior", grid(unit_line, {points}), [](Coordinates x, const auto& u) {
    return u(0, 0) + 4 * pi * pi * std::sin(2 * pi * x[0]);
  });
  return problem;
}

TEST(FbpinnHeldOut, StripsWithoutAPoint_AreSeenBetweenThePoints) {
  Mesh mesh = some_devices();
  const Trained trained = least_squares(mesh, wave_on_a_line(1.01));
  EXPECT_LT(trained.loss, 1e-9);
  EXPECT_GT(trained.held_out_loss, 1e3 * trained.loss);
  ASSERT_EQ(trained.terms.size(), 1U);
  EXPECT_GT(trained.terms[0].held_out_points, 200);
  EXPECT_THAT(trained.warnings, Contains(HasSubstr("no point lies in strips")));
  EXPECT_THAT(trained.warnings, Contains(HasSubstr("term 'interior' has a loss of")));
}

TEST(FbpinnHeldOut, GoodProblem_IsAsGoodBetweenThePointsAndNotWarnedOf) {
  Mesh mesh = some_devices();
  Problem problem(Boxes::regular(unit_square, {4, 4}, 2.9), {.hidden = {16}});
  problem.constrain([](auto x, auto v) { return x[0] * (1 - x[0]) * x[1] * (1 - x[1]) * v; });
  problem.add("interior", grid(unit_square, {36, 36}), [](Coordinates x, const auto& u) {
    return u(0, 0) + u(1, 1) + 2 * pi * pi * std::sin(pi * x[0]) * std::sin(pi * x[1]);
  });
  const Trained trained = least_squares(mesh, problem);
  EXPECT_TRUE(trained.outcome.ok());
  EXPECT_TRUE(trained.warnings.empty()) << trained.warnings[0];
  EXPECT_GT(trained.held_out_loss, 0.1 * trained.loss);
  EXPECT_LT(trained.held_out_loss, 10 * trained.loss);
  EXPECT_LT(trained.loss_left(), 1e-6);
  EXPECT_GT(trained.times.held_out, 0.0);
}

TEST(FbpinnHeldOut, TooFewRows_AreSeenBetweenThePoints) {
  // A flux that steps between points, with 3.2 rows a column.
  Mesh mesh = some_devices();
  Problem problem(Boxes::regular(unit_square, {4, 4}, 2.9), {.hidden = {24}});
  problem.constrain([](auto x, auto v) { return x[0] * (1 - x[0]) * x[1] * (1 - x[1]) * v; });
  problem.add("interior", grid(unit_square, {22, 22}), [](Coordinates x, const auto& u) {
    const double k = 1 + 9 / (1 + std::exp(-100 * (x[0] - 0.48)));
    const double slope = (k - 1) * (10 - k) / 9 * 100;
    return k * (u(0, 0) + u(1, 1)) + slope * u(0) + 10;
  });
  const Trained trained = least_squares(mesh, problem);
  EXPECT_GT(trained.held_out_loss, 10 * trained.loss);
  EXPECT_THAT(trained.warnings, Contains(HasSubstr("points between")));
}

TEST(FbpinnHeldOut, MeasurementsAndSinglePoints_CountAsTheyAre) {
  Mesh mesh = Mesh::serial();
  Problem problem(Boxes::regular(unit_line, {3}, 2.9), {.hidden = {8}});
  problem.add("equation", grid(unit_line, {80}),
              [](Coordinates, const auto& u) { return u(0) + u(); });
  problem.add("start", {0.0}, [](Coordinates, const auto& u) { return u() - 1; }, 10);
  problem.add_data("data", {0.2, 0.4}, {0.5, 0.9},
                   [](Coordinates, const auto& u) { return u() * 1.0; });
  const Trained trained = least_squares(mesh, problem);
  ASSERT_EQ(trained.terms.size(), 3U);
  double sum = 0.0;
  for (const TermLoss& term : trained.terms) {
    sum += term.loss;
  }
  EXPECT_NEAR(sum / trained.loss, 1.0, 1e-12);
  EXPECT_EQ(trained.terms[0].held_out_points, 79);
  for (const std::size_t k : {1U, 2U}) {
    EXPECT_EQ(trained.terms[k].held_out_points, 0);
    EXPECT_EQ(trained.terms[k].held_out, trained.terms[k].loss);
  }
}

TEST(FbpinnHeldOut, ResidualThatIsNotFiniteBetween_IsLeftOutAndToldOf) {
  Mesh mesh = Mesh::serial();
  Problem problem(Boxes::regular(unit_line, {3}, 2.9), {.hidden = {8}});
  problem.add("equation", grid(unit_line, {80}), [](Coordinates x, const auto& u) {
    return u() - (std::abs(x[0] - 0.5) < 1e-9 ? std::numeric_limits<double>::infinity() : x[0]);
  });
  const Trained trained = least_squares(mesh, problem);
  EXPECT_TRUE(trained.outcome.ok());
  EXPECT_LT(trained.held_out_loss, 1e-6);
  EXPECT_THAT(trained.warnings, Contains(HasSubstr("not finite at 1 of 79 places")));
}

TEST(FbpinnHeldOut, AnyRanksAndProcesses_GiveTheSameBits) {
  Mesh serial = Mesh::serial();
  const Trained expected = least_squares(serial, wave_on_a_line(1.3));
  Mesh three = Mesh::host(3);
  EXPECT_EQ(least_squares(three, wave_on_a_line(1.3)).held_out_loss, expected.held_out_loss);
  testing::ProcessMeshes meshes(2);
  const auto errors = meshes.together([&](Mesh& mesh, std::int64_t rank) {
    EXPECT_EQ(least_squares(mesh, wave_on_a_line(1.3)).held_out_loss, expected.held_out_loss)
        << rank;
  });
  for (const auto& error : errors) {
    EXPECT_FALSE(error) << error->what();
  }
}

TEST(FbpinnConditions, EquationAlone_IsRefused) {
  Mesh mesh = Mesh::serial();
  const auto with = [](const std::vector<double>& points, auto function) {
    Problem problem(Boxes::regular(unit_line, {3}, 2.9), {.hidden = {8}});
    problem.add("equation", points, function);
    return problem;
  };
  const auto oscillator = [](Coordinates, const auto& u) { return u(0, 0) + 25 * u() - 1; };
  Problem problem = with(grid(unit_line, {80}), oscillator);
  expect_error([&] { least_squares(mesh, problem); }, ErrorKind::invalid_argument,
               {"1 terms", "order 2", "no constraint", "boundary or initial condition"});
  problem.add("value", {0.0}, [](Coordinates, const auto& u) { return u() - 1; });
  problem.add("slope", {0.0}, [](Coordinates, const auto& u) { return u(0) * 1.0; });
  EXPECT_TRUE(least_squares(mesh, problem).outcome.ok());
  // What reads no derivative needs none.
  EXPECT_TRUE(least_squares(mesh, with(grid(unit_line, {80}),
                                       [](Coordinates x, const auto& u) { return u() - x[0]; }))
                  .outcome.ok());
}

/// u_t = a u_xx + b u for data of exp(-t) sin(3 x), which say b - 9 a = -1 alone.
Problem decay(bool with_prior) {
  Problem problem(Boxes::regular(unit_square, {3, 3}, 2.9), {.hidden = {16}});
  const ScalarCoefficient a = problem.add_coefficient("a", 0.0);
  const ScalarCoefficient b = problem.add_coefficient("b", 0.0);
  problem.add("equation", grid(unit_square, {24, 24}),
              [=](Coordinates, const auto& u, const auto& c) {
                return u(1) - c(a) * u(0, 0) - c(b) * u();
              });
  std::mt19937 generator(1);
  std::normal_distribution<double> noise(0.0, 1e-3);
  const std::vector<double> points = grid(unit_square, {14, 14});
  std::vector<double> values;
  for (std::size_t p = 0; p < points.size(); p += 2) {
    values.push_back(std::exp(-points[p + 1]) * std::sin(3 * points[p]) + noise(generator));
  }
  problem.add_data(
      "data", points, values, [](Coordinates, const auto& u) { return u() * 1.0; }, 10.0);
  if (with_prior) {
    problem.add("prior", {0.5, 0.5},
                [=](Coordinates, const auto&, const auto& c) { return c(a) - 0.1; });
  }
  return problem;
}

TEST(FbpinnDetermined, CoefficientsThatDataDoNotTellApart_AreNot) {
  Mesh mesh = some_devices();
  const Trained trained = least_squares(mesh, decay(false));
  EXPECT_LT(trained.coefficients_determined, 2);
  ASSERT_EQ(trained.coefficient_deviations.size(), 2U);
  EXPECT_GT(trained.coefficient_deviations[0], 0.5 * std::abs(trained.coefficient("a")[0]));
  EXPECT_THAT(trained.warnings,
              Contains(HasSubstr("not determined by the equations and the data")));
}

TEST(FbpinnDetermined, TermOnACoefficientAlone_DeterminesThem) {
  Mesh mesh = some_devices();
  const Trained trained = least_squares(mesh, decay(true));
  EXPECT_EQ(trained.coefficients_determined, 2);
  EXPECT_NEAR(trained.coefficient("a")[0], 0.1, 1e-2);
  EXPECT_NEAR(trained.coefficient("b")[0], -0.1, 2e-1);
  EXPECT_THAT(trained.warnings, Not(Contains(HasSubstr("not determined"))));
  EXPECT_EQ(trained.problem.terms()[2].order, -1);
}

/// u = sin, measured; what is known of a is a term, or nothing.
Problem oscillation(bool with_prior) {
  Problem problem(Boxes::regular({{0.0, 6.0}}, {4}, 2.9), {.hidden = {12}});
  const ScalarCoefficient a = problem.add_coefficient("a", 1.0);
  const ScalarCoefficient b = problem.add_coefficient("b", 1.0);
  const std::vector<double> points = grid({{0.0, 6.0}}, {120});
  problem.add("equation", points, [=](Coordinates, const auto& u, const auto& c) {
    return c(a) * u(0, 0) + c(b) * u();
  });
  std::vector<double> values(points.size());
  std::transform(points.begin(), points.end(), values.begin(),
                 [](double x) { return std::sin(x); });
  problem.add_data("data", points, values, [](Coordinates, const auto& u) { return u() * 1.0; });
  if (with_prior) {
    problem.add("prior", {3.0},
                [=](Coordinates, const auto&, const auto& c) { return c(b) - 2.0; });
  }
  return problem;
}

TEST(FbpinnDetermined, CoefficientsOfAnEquationThatHoldsWhereTheyAreZero_AreNot) {
  Mesh mesh = some_devices();
  const Trained trained = least_squares(mesh, oscillation(false));
  EXPECT_EQ(trained.coefficients_determined, 0);
  EXPECT_THAT(trained.warnings,
              Contains(HasSubstr("'equation' holds for every u where its coefficients are 0")));
  const Trained held = least_squares(mesh, oscillation(true));
  EXPECT_EQ(held.coefficients_determined, 2);
  EXPECT_NEAR(held.coefficient("a")[0], 2.0, 1e-4);
  EXPECT_THAT(held.warnings, Not(Contains(HasSubstr("holds for every u"))));
}

TEST(FbpinnDetermined, CoefficientThatATermSaysIsZero_Is) {
  Mesh mesh = some_devices();
  Problem problem(Boxes::regular({{0.0, 6.0}}, {4}, 2.9), {.hidden = {12}});
  const ScalarCoefficient a = problem.add_coefficient("a", 1.0);
  const std::vector<double> points = grid({{0.0, 6.0}}, {80});
  problem.add("equation", points, [=](Coordinates, const auto& u, const auto& c) {
    return u(0, 0) + u() + c(a) * u(0);
  });
  problem.add("begin", {0.0}, [](Coordinates, const auto& u) { return u() - 1.0; });
  problem.add("slope", {0.0}, [](Coordinates, const auto& u) { return u(0) * 1.0; });
  problem.add("known", points, [=](Coordinates, const auto&, const auto& c) { return c(a); });
  const Trained trained = least_squares(mesh, problem);
  EXPECT_NEAR(trained.coefficient("a")[0], 0.0, 1e-6);
  EXPECT_EQ(trained.coefficients_determined, 1);
  EXPECT_THAT(trained.warnings, Not(Contains(HasSubstr("holds for every u"))));
}

TEST(FbpinnDetermined, CoefficientsThatAlwaysComeTogether_AreNot) {
  Mesh mesh = Mesh::serial();
  Problem problem(Boxes::regular(unit_line, {2}, 2.9), {.hidden = {8}});
  const ScalarCoefficient a = problem.add_coefficient("a", 1.0);
  const ScalarCoefficient b = problem.add_coefficient("b", 1.0);
  const ScalarCoefficient d = problem.add_coefficient("d", 1.0);
  problem.add("sum", grid(unit_line, {40}), [=](Coordinates x, const auto& u, const auto& c) {
    return u() - (c(a) + c(b)) - c(d) * x[0];
  });
  problem.add_data("data", {0.1, 0.5, 0.9}, {3.2, 4.0, 4.8},
                   [](Coordinates, const auto& u) { return u() * 1.0; });
  const Trained trained = least_squares(mesh, problem);
  EXPECT_EQ(trained.coefficients_determined, 1);
  EXPECT_NEAR(trained.coefficient("d")[0], 2.0, 1e-8);
  for (const std::size_t k : {0U, 1U}) {
    EXPECT_EQ(trained.coefficient_deviations[k], std::numeric_limits<double>::infinity());
  }
}

TEST(FbpinnDetermined, Deviations_AreThoseOfRepeatedNoise) {
  // u'' = -a u with noisy data: the spread of a over seeds beside what one run says.
  Mesh mesh = Mesh::serial();
  std::vector<double> found;
  double told = 0.0;
  constexpr unsigned runs = 12;
  for (unsigned seed = 0; seed < runs; ++seed) {
    Problem problem(Boxes::regular(unit_line, {3}, 2.9), {.hidden = {8}});
    const ScalarCoefficient a = problem.add_coefficient("a", 20.0);
    problem.add("interior", grid(unit_line, {100}),
                [=](Coordinates, const auto& u, const auto& c) { return u(0, 0) + c(a) * u(); });
    std::mt19937 generator(seed);
    std::normal_distribution<double> noise(0.0, 1e-2);
    const std::vector<double> points = grid(unit_line, {60});
    std::vector<double> values;
    for (const double x : points) {
      values.push_back(std::cos(5 * x) + noise(generator));
    }
    problem.add_data("data", points, values, [](Coordinates, const auto& u) { return u() * 1.0; });
    const Trained trained = least_squares(mesh, problem);
    found.push_back(trained.coefficient("a")[0]);
    told += trained.coefficient_deviations[0] / runs;
  }
  double mean = 0.0;
  double square = 0.0;
  for (const double one : found) {
    mean += one / runs;
  }
  for (const double one : found) {
    square += (one - mean) * (one - mean) / (runs - 1);
  }
  EXPECT_GT(told, 0.3 * std::sqrt(square));
  EXPECT_LT(told, 3.0 * std::sqrt(square));
}

Problem with_units(double at_the_end) {
  OwnUnits units{.count = 2};
  units.jets = [at_the_end](const JetSet& set, std::int64_t box, const double*, std::int64_t points,
                            const double* at, double* jets) {
    std::fill_n(jets, points * 2 * set.size(), 0.0);
    for (std::int64_t p = 0; p < points; ++p) {
      jets[p * 2 * set.size()] = std::cos(at[p]);
      jets[(p * 2 + 1) * set.size()] = box == 2 && at[p] > 0.99 ? at_the_end : at[p];
    }
  };
  Problem problem(Boxes::regular(unit_line, {3}, 2.9), Mlp::of(units));
  problem.add("value", grid(unit_line, {40}),
              [](Coordinates x, const auto& u) { return u() - x[0]; });
  return problem;
}

TEST(FbpinnBadInput, UnitsThatAreNotFinite_AreNamed) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Mesh mesh = some_devices();
  EXPECT_TRUE(least_squares(mesh, with_units(1.0)).outcome.ok());
  expect_error([&] { least_squares(mesh, with_units(nan)); }, ErrorKind::invalid_argument,
               {"unit 1 of box 2", "not finite at (1)"});
  testing::ProcessMeshes meshes(2);
  const auto errors =
      meshes.together([&](Mesh& one, std::int64_t) { least_squares(one, with_units(nan)); });
  for (const auto& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), HasSubstr("unit 1 of box 2"));
  }
}

TEST(FbpinnBadInput, PointsOutsideOfTheDomain_AreRefusedThoughABoxIsThere) {
  Mesh mesh = some_devices();
  const Trained trained = least_squares(mesh, wave_on_a_line(2.9));
  EXPECT_EQ(trained.evaluate(mesh, std::vector<double>{0.0, 1.0, 1.0 + 1e-12}).size(), 3U);
  expect_error([&] { trained.evaluate(mesh, std::vector<double>{0.5, 1.1}); },
               ErrorKind::invalid_argument, {"point 1 at (1.1)", "domain [0, 1]"});
}

/// u' = factor u (1 - u^2), u(0) = 1/2.
Problem stiff(double factor) {
  Problem problem(Boxes::regular(unit_line, {4}, 2.9), {.hidden = {10}});
  problem.constrain([](auto x, auto v) { return 0.5 + x[0] * v; });
  problem.add("interior", grid(unit_line, {160}),
              [=](Coordinates, const auto& u) { return u(0) - factor * u() * (1 - u() * u()); });
  return problem;
}

TEST(FbpinnStart, NetworksOfAnotherProblem_AreWhereTrainingBegins) {
  Mesh mesh = some_devices();
  const Trained first = least_squares(mesh, stiff(4));
  const Trained cold = least_squares(mesh, stiff(5));
  const Trained warm = least_squares(
      mesh, stiff(5), {.hidden_weights = first.hidden_weights, .last_layer = first.last_layer});
  EXPECT_TRUE(warm.outcome.ok());
  EXPECT_LT(warm.losses.front(), cold.losses.front());
  EXPECT_EQ(warm.zero_loss, cold.zero_loss);
  EXPECT_LT(warm.losses[2], 1e-3 * cold.losses[2]);
  EXPECT_LT(warm.loss, 1.1 * cold.loss + 1e-12 * cold.zero_loss);
  expect_error([&] { least_squares(mesh, stiff(5), {.last_layer = {1.0}}); },
               ErrorKind::invalid_argument, {"1 weights of last layers", "44 are needed"});
}

TEST(FbpinnStart, LinearProblem_IsTheSameWhereverItBegins) {
  Mesh mesh = some_devices();
  const Trained expected = least_squares(mesh, wave_on_a_line(2.9));
  const Trained again =
      least_squares(mesh, wave_on_a_line(2.9),
                    {.last_layer = std::vector<double>(expected.last_layer.size(), 3.0)});
  EXPECT_EQ(again.last_layer, expected.last_layer);
  EXPECT_EQ(again.zero_loss, expected.zero_loss);
}

}  // namespace
}  // namespace shardsolve::fbpinn
