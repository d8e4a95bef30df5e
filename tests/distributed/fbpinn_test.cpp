// Whole trainings: equations with solutions that are known.

#include "tests/support/backend.hpp"
#include "tests/support/process_meshes.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/fbpinn.hpp>
#include <shardsolve/mesh.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <random>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

namespace shardsolve::fbpinn {
namespace {

using std::numbers::pi;
using testing::expect_error;
using ::testing::HasSubstr;

const std::vector<Interval> line{{0, 1}};
const std::vector<Interval> square{{0, 1}, {0, 1}};
const std::vector<Interval> cube{{0, 1}, {0, 1}, {0, 1}};

/// CPU devices, or one GPU if the tests run on those.
Mesh devices(std::int64_t ranks) {
  if (!testing::test_gpus().empty()) {
    return testing::make_mesh(1);
  }
  return ranks == 1 ? Mesh::serial() : Mesh::host(ranks);
}

template <class Exact>
double error_of(Mesh& mesh, const Trained& trained, const std::vector<double>& points,
                const Exact& exact, int field = 0) {
  const auto axes = static_cast<std::size_t>(trained.problem.boxes().axes());
  const auto fields = static_cast<std::size_t>(trained.problem.fields());
  const std::vector<double> all = trained.evaluate(mesh, points, 77);
  std::vector<double> u;
  std::vector<double> reference;
  for (std::size_t p = 0; p < points.size() / axes; ++p) {
    u.push_back(all[p * fields + static_cast<std::size_t>(field)]);
    reference.push_back(exact(points.data() + p * axes));
  }
  return relative_error(u, reference);
}

Problem poisson() {
  Problem problem(Boxes::regular(square, {4, 3}, 2.5), {.hidden = {20}});
  problem.constrain([](auto x, auto v) { return sin(pi * x[0]) * sin(pi * x[1]) * v; });
  problem.add("interior", grid(square, {24, 20}), [](Coordinates x, const auto& u) {
    return u(0, 0) + u(1, 1) + 5 * pi * pi * std::sin(2 * pi * x[0]) * std::sin(pi * x[1]);
  });
  return problem;
}
double poisson_solution(const double* x) { return std::sin(2 * pi * x[0]) * std::sin(pi * x[1]); }

TEST(FbpinnLeastSquares, LinearProblem_IsOneSolveWithACertificate) {
  Mesh mesh = devices(1);
  const Trained trained = least_squares(mesh, poisson());
  EXPECT_TRUE(trained.outcome.ok());
  EXPECT_TRUE(trained.is_linear);
  EXPECT_EQ(trained.losses.size(), 2U);
  EXPECT_EQ(trained.rows, 480);
  EXPECT_EQ(trained.columns, 12 * 21);
  EXPECT_LT(trained.certificate, 1e-6);
  EXPECT_GE(trained.condition, 1.0);
  EXPECT_LT(error_of(mesh, trained, grid(square, {31, 37}), poisson_solution), 1e-5);
  EXPECT_THAT(trained.warnings,
              ::testing::Contains(HasSubstr("480 rows for 252 columns, 1.9 each")));
}

TEST(FbpinnLeastSquares, AnyNumberOfRanks_GivesTheSameBits) {
  Mesh serial = Mesh::serial();
  const Trained expected = least_squares(serial, poisson());
  const std::vector<double> points = grid(square, {13, 11});
  for (const std::int64_t ranks : {1, 2, 3, 4, 6}) {
    Mesh mesh = Mesh::host(ranks);
    const Trained trained = least_squares(mesh, poisson());
    EXPECT_EQ(trained.last_layer, expected.last_layer) << ranks;
    EXPECT_EQ(trained.evaluate(mesh, points, 10), expected.evaluate(serial, points)) << ranks;
  }
}

TEST(FbpinnLeastSquares, Processes_GiveTheSameBits) {
  Mesh serial = Mesh::serial();
  const Trained expected = least_squares(serial, poisson());
  const std::vector<double> points = grid(square, {13, 11});
  const std::vector<double> values = expected.evaluate(serial, points);
  for (const std::int64_t ranks : {2, 3}) {
    testing::ProcessMeshes meshes(ranks);
    const auto errors = meshes.together([&](Mesh& mesh, std::int64_t rank) {
      const Trained trained = least_squares(mesh, poisson());
      EXPECT_EQ(trained.last_layer, expected.last_layer) << rank << " of " << ranks;
      EXPECT_EQ(trained.evaluate(mesh, points, 50), values) << rank << " of " << ranks;
    });
    for (const auto& error : errors) {
      EXPECT_FALSE(error) << error->what();
    }
    EXPECT_TRUE(meshes.in_good_order());
  }
}

TEST(FbpinnLeastSquares, HelmholtzWithVariableCoefficient_IsSolved) {
  Mesh mesh = devices(2);
  const auto wave_number = [](const double* x) { return 6 + 3 * x[0] * x[1]; };
  const auto exact = [](const double* x) {
    return std::sin(3 * pi * x[0]) * std::sin(2 * pi * x[1]);
  };
  Problem problem(Boxes::regular(square, {10, 6}, 2.9), {.hidden = {20}});
  problem.constrain([](auto x, auto v) {
    return tanh(x[0] * 6) * tanh((1 - x[0]) * 6) * tanh(x[1] * 6) * tanh((1 - x[1]) * 6) * v;
  });
  problem.add("interior", grid(square, {84, 54}), [=](Coordinates x, const auto& u) {
    const double k = wave_number(x.data());
    return u(0, 0) + u(1, 1) + k * k * u() - (k * k - 13 * pi * pi) * exact(x.data());
  });
  const Trained trained = least_squares(mesh, problem);
  EXPECT_TRUE(trained.is_linear);
  EXPECT_TRUE(trained.warnings.empty());
  EXPECT_LT(error_of(mesh, trained, grid(square, {83, 59}), exact), 1e-4);
}

TEST(FbpinnLeastSquares, Biharmonic_ReadsDerivativesOfOrderFour) {
  Mesh mesh = devices(1);
  Problem problem(Boxes::regular(line, {6}, 2.9), {.hidden = {12}});
  problem.constrain([](auto x, auto v) { return x[0] * x[0] * (1 - x[0]) * (1 - x[0]) * v; });
  problem.add("interior", grid(line, {240}), [](Coordinates x, const auto& u) {
    return u(0, 0, 0, 0) + 8 * std::pow(pi, 4) * std::cos(2 * pi * x[0]);
  });
  const auto exact = [](const double* x) { return std::pow(std::sin(pi * x[0]), 2); };
  const Trained trained = least_squares(mesh, problem);
  EXPECT_EQ(problem.jet_set().order(), 4);
  EXPECT_LT(error_of(mesh, trained, grid(line, {301}), exact), 1e-4);
}

TEST(FbpinnLeastSquares, CoupledFields_HaveSeveralEquations) {
  // u' = 5 v, v' = -5 u, u(0) = 0, v(0) = 1.
  Mesh mesh = devices(1);
  Problem problem(Boxes::regular(line, {5}, 2.9), {.hidden = {8}}, 2);
  problem.add("interior", grid(line, {60}), [](Coordinates, const auto& jets) {
    const auto u = jets.field(0);
    const auto v = jets.field(1);
    return std::array{u(0) - 5 * v(), v(0) + 5 * u()};
  });
  problem.add(
      "start", {0.0},
      [](Coordinates, const auto& jets) {
        return std::array{jets.field(0)() * 1.0, jets.field(1)() - 1};
      },
      10);
  const Trained trained = least_squares(mesh, problem);
  EXPECT_EQ(trained.rows, 122);
  const std::vector<double> points = grid(line, {97});
  EXPECT_LT(
      error_of(mesh, trained, points, [](const double* x) { return std::sin(5 * *x); }, 0), 1e-4);
  EXPECT_LT(
      error_of(mesh, trained, points, [](const double* x) { return std::cos(5 * *x); }, 1), 1e-4);
}

TEST(FbpinnLeastSquares, AdvectionInTwoDimensionsAndTime_OnTwoLevels) {
  // u_t + u_x / 2 - u_y / 4 = 0 with u(0) given as a hard condition.
  Mesh mesh = devices(2);
  const auto start = [](const auto& x, const auto& y) { return sin(2 * x) * cos(3 * y); };
  Boxes boxes = Boxes::regular(cube, {3, 3, 3}, 2.9);
  boxes.add_level(Boxes::regular(cube, {1, 1, 1}, 2.9));
  Problem problem(boxes, {.hidden = {12}});
  problem.constrain([=](auto x, auto v) { return start(x[0], x[1]) + x[2] * v; });
  problem.add("interior", grid(cube, {11, 11, 11}),
              [](Coordinates, const auto& u) { return u(2) + 0.5 * u(0) - 0.25 * u(1); });
  const Trained trained = least_squares(mesh, problem);
  EXPECT_TRUE(trained.is_linear);
  const auto exact = [=](const double* x) { return start(x[0] - x[2] / 2, x[1] + x[2] / 4); };
  EXPECT_LT(error_of(mesh, trained, grid(cube, {8, 9, 7}), exact), 2e-2);
}

Problem burgers() {
  // u u_x = u_xx / 10 + f
  Problem problem(Boxes::regular(line, {8}, 2.9), {.hidden = {12}});
  problem.constrain([](auto x, auto v) { return x[0] * (1 - x[0]) * v; });
  problem.add("interior", grid(line, {400}), [](Coordinates x, const auto& u) {
    const double s = std::sin(3 * pi * x[0]);
    const double c = std::cos(3 * pi * x[0]);
    return u() * u(0) - 0.1 * u(0, 0) - (3 * pi * s * c + 0.9 * pi * pi * s);
  });
  return problem;
}

TEST(FbpinnLeastSquares, Burgers_IsSolvedByGaussNewton) {
  Mesh mesh = devices(1);
  const Trained trained = least_squares(mesh, burgers());
  EXPECT_TRUE(trained.outcome.ok());
  EXPECT_FALSE(trained.is_linear);
  EXPECT_GT(trained.losses.size(), 3U);
  for (std::size_t i = 1; i < trained.losses.size(); ++i) {
    EXPECT_LT(trained.losses[i], trained.losses[i - 1]);
  }
  EXPECT_LT(error_of(mesh, trained, grid(line, {501}),
                     [](const double* x) { return std::sin(3 * pi * *x); }),
            1e-5);
}

TEST(FbpinnLeastSquares, TooFewIterations_AreNotConverged) {
  Mesh mesh = devices(1);
  const Trained trained = least_squares(mesh, burgers(), {.max_iterations = 1});
  EXPECT_EQ(trained.outcome.status, Status::not_converged);
}

TEST(FbpinnLeastSquares, NonlinearConstraint_IsDifferentiatedToo) {
  // exp(v) > 0 solves u' = -2 u, u(0) = 1.
  Mesh mesh = devices(1);
  Problem problem(Boxes::regular(line, {3}, 2.9), {.hidden = {8}});
  problem.constrain([](auto x, auto v) { return exp(x[0] * v); });
  problem.add("interior", grid(line, {60}),
              [](Coordinates, const auto& u) { return u(0) + 2 * u(); });
  const Trained trained = least_squares(mesh, problem);
  EXPECT_FALSE(trained.is_linear);
  EXPECT_LT(
      error_of(mesh, trained, grid(line, {77}), [](const double* x) { return std::exp(-2 * *x); }),
      1e-6);
}

TEST(FbpinnLeastSquares, Data_AreFitted) {
  Mesh mesh = devices(1);
  Problem problem(Boxes::regular(line, {4}, 2.9), {.hidden = {10}});
  const std::vector<double> points = grid(line, {200});
  std::vector<double> values;
  for (const double x : points) {
    values.push_back(3 * std::cos(7 * x));
  }
  problem.add_data("receivers", points, values, [](Coordinates, const auto& u) { return u() * 3; });
  const Trained trained = least_squares(mesh, problem);
  EXPECT_LT(
      error_of(mesh, trained, grid(line, {333}), [](const double* x) { return std::cos(7 * *x); }),
      1e-7);
}

TEST(FbpinnLeastSquares, JetsOfTheSolution_AreItsDerivatives) {
  Mesh mesh = devices(1);
  const Trained trained = least_squares(mesh, poisson());
  const std::vector<double> point{0.3, 0.6};
  const JetSet set = JetSet::full(2, 2);
  const std::vector<double> jets = trained.evaluate_jets(mesh, set, point);
  EXPECT_NEAR(jets[1], 2 * pi * std::cos(0.6 * pi) * std::sin(0.6 * pi), 1e-3);
  EXPECT_NEAR(jets[3] + jets[5], -5 * pi * pi * jets[0], 1e-2);
}

TEST(FbpinnLeastSquares, ConjugateGradients_FindTheSameWithoutAFactor) {
  Mesh mesh = Mesh::host(2);
  const auto options = [](LinearMethod method) {
    return LeastSquaresOptions{.rank_tolerance = 1e-4, .method = method, .cg_tolerance = 1e-8};
  };
  const Trained factor = least_squares(mesh, poisson(), options(LinearMethod::factor));
  const Trained gradients = least_squares(mesh, poisson(), options(LinearMethod::cg));
  EXPECT_FALSE(factor.is_by_cg);
  EXPECT_TRUE(gradients.is_by_cg);
  EXPECT_TRUE(gradients.outcome.ok());
  EXPECT_GT(gradients.cg_steps, 10);
  EXPECT_LT(gradients.certificate, 1e-7);
  EXPECT_NEAR(gradients.loss / factor.loss, 1.0, 1e-8);
  Mesh serial = Mesh::serial();
  EXPECT_EQ(least_squares(serial, poisson(), options(LinearMethod::cg)).last_layer,
            gradients.last_layer);
}

TEST(FbpinnLeastSquares, TooFewConjugateGradients_AreNotConvergedAndWarnedOf) {
  Mesh mesh = Mesh::serial();
  const Trained trained =
      least_squares(mesh, poisson(), {.method = LinearMethod::cg, .max_cg_steps = 5});
  EXPECT_EQ(trained.outcome.status, Status::not_converged);
  EXPECT_EQ(trained.cg_steps, 5);
  EXPECT_THAT(trained.warnings,
              ::testing::Contains(HasSubstr("came to their limit after 5 steps")));
}

/// sin by its equation, whose conditions have a weight.
Problem weighted(double weight) {
  Problem problem(Boxes::regular(line, {4}, 2.9), {.hidden = {6}});
  problem.add("interior", grid(line, {300}), [](auto, const auto& u) { return u(0, 0) + u(); });
  problem.add("value", {0.0}, [](auto, const auto& u) { return u(); }, weight);
  problem.add("slope", {0.0}, [](auto, const auto& u) { return u(0) - 1; }, weight);
  return problem;
}

TEST(FbpinnLeastSquares, WeightsThatDifferMuch_StillGiveTheLeastLoss) {
  Mesh mesh = devices(1);
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    const double least = least_squares(mesh, weighted(1), {.seed = seed}).loss;
    for (const double weight : {1e3, 1e4, 1e5, 1e6}) {
      const Trained trained = least_squares(mesh, weighted(weight), {.seed = seed});
      EXPECT_TRUE(trained.outcome.ok());
      EXPECT_LT(trained.loss, 10 * least) << "seed " << seed << ", weight " << weight;
    }
  }
}

/// u'' = 1e-12 u^3, which is nothing beside u'' where u is of size 1.
TEST(FbpinnLeastSquares, EquationThatIsLinearWhereNetworksBeginAlone_IsSolvedAsItIs) {
  Mesh mesh = devices(1);
  Problem problem(Boxes::regular(line, {4}, 2.9), {.hidden = {16}});
  const std::vector<double> points = grid(line, {400});
  problem.add("interior", points,
              [](auto, const auto& u) { return u(0, 0) - 1e-12 * u() * u() * u(); });
  problem.add("left", {0.0}, [](auto, const auto& u) { return u() - 1e6; }, 100);
  problem.add("right", {1.0}, [](auto, const auto& u) { return u(); }, 100);
  const Trained trained = least_squares(mesh, problem);
  EXPECT_FALSE(trained.is_linear);
  const JetSet set = JetSet::full(1, 2);
  const std::vector<double> jets = trained.evaluate_jets(mesh, set, points);
  double sum = 0.0;
  for (std::size_t p = 0; p < points.size(); ++p) {
    sum += std::pow(jets[3 * p + 2] - 1e-12 * std::pow(jets[3 * p], 3), 2);
  }
  EXPECT_LT(sum / static_cast<double>(points.size()), 1.0);  // as of a linear one: 1e11
  EXPECT_LT(trained.loss, 1.0);
}

/// p = s cos x and v = sin x, by p = s v' and p' = -s v.
TEST(FbpinnLeastSquares, FieldsInUnitsOfTheirOwn_AreKeptAlike) {
  Mesh mesh = devices(1);
  const std::vector<double> points = grid(line, {150});
  for (const double s : {1.0, 1e5, 1e8}) {
    Problem problem(Boxes::regular(line, {3}, 2.9), {.hidden = {8}}, 2);
    problem.add("both", points, [s](auto, const auto& u) {
      return std::array{u.field(1)(0) - u.field(0)() / s, u.field(0)(0) / s + u.field(1)()};
    });
    problem.add("start", {0.0}, [s](auto, const auto& u) {
      return std::array{u.field(0)() / s - 1, u.field(1)() * 1.0};
    });
    const Trained trained = least_squares(mesh, problem);
    EXPECT_TRUE(trained.outcome.ok());
    EXPECT_LT(
        error_of(
            mesh, trained, grid(line, {101}), [](const double* x) { return std::sin(*x); }, 1),
        1e-6)
        << s;
  }
}

/// Weights of the networks are so large that their sum is rounding: what is said is its loss.
TEST(FbpinnLeastSquares, LossIsThatOfTheNetworks) {
  Mesh mesh = devices(1);
  Problem problem(Boxes::regular(line, {4}, 6.0), {.hidden = {8}});
  const std::vector<double> points = grid(line, {40});
  problem.add("interior", points,
              [](Coordinates x, const auto& u) { return u(0, 0) + u() - std::sin(30 * x[0]); });
  problem.add("left", {0.0}, [](auto, const auto& u) { return u(); });
  problem.add("right", {1.0}, [](auto, const auto& u) { return u(); });
  const Trained trained = least_squares(mesh, problem);
  const std::vector<double> jets = trained.evaluate_jets(mesh, JetSet::full(1, 2), points);
  double sum = 0.0;
  for (std::size_t p = 0; p < points.size(); ++p) {
    sum += std::pow(jets[3 * p + 2] + jets[3 * p] - std::sin(30 * points[p]), 2);
  }
  EXPECT_LT(sum / static_cast<double>(points.size()), 1e-3);  // 0.9, and 3e-10 were said
  EXPECT_GT(trained.loss, 1e-8);
}

/// Lengths of cells have no finite inverse. Where units are finite all the same there is an answer.
TEST(FbpinnLeastSquares, DomainOfSubnormalLength_IsRefusedOrAnswered) {
  Mesh mesh = devices(1);
  const std::vector<Interval> tiny{{0, 1e-309}};
  Problem problem(Boxes::regular(tiny, {3}, 2.9), {.hidden = {3}});
  problem.add("interior", grid(tiny, {30}), [](auto, const auto& u) { return u() - 1; });
  try {
    const Trained trained = least_squares(mesh, problem);
    EXPECT_TRUE(std::isfinite(trained.loss) || !trained.outcome.ok());
  } catch (const Error& error) {
    EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
  }
}

TEST(FbpinnLeastSquares, ConjugateGradientsAtRounding_AreNotCalledTheLeastLoss) {
  Mesh mesh = devices(1);
  const double least = least_squares(mesh, weighted(1e6)).loss;
  const Trained trained = least_squares(mesh, weighted(1e6), {.method = LinearMethod::cg});
  EXPECT_GT(trained.loss, 100 * least);
  EXPECT_EQ(trained.outcome.status, Status::not_converged);
  EXPECT_THAT(trained.warnings, ::testing::Contains(HasSubstr("came to rounding after")));
}

TEST(FbpinnPlan, ThreeWaysToFactor_AreTold) {
  const TrainingPlan plan = plan_least_squares(poisson());
  EXPECT_EQ(plan.boxes, 12);
  EXPECT_EQ(plan.points, 480);
  EXPECT_EQ(plan.columns, 252);
  EXPECT_GT(plan.pairs, 480);
  EXPECT_DOUBLE_EQ(plan.costs.dense.flops, 252.0 * 252 * 252 / 3);
  for (const char* const word : {"nested dissection", "band", "dense", "12 boxes", "GB"}) {
    EXPECT_THAT(plan.text(), HasSubstr(word));
  }
}

TEST(FbpinnPlan, EachOfSeveralGpus_NeedsLess) {
  Problem problem(Boxes::regular(square, {16, 16}, 2.9), {.hidden = {32}});
  problem.add("value", grid(square, {96, 96}),
              [](Coordinates, const auto& u) { return u() * 1.0; });
  const TrainingPlan plan = plan_least_squares(problem);
  ASSERT_EQ(plan.gpu_bytes.size(), 4U);
  EXPECT_EQ(plan.gpu_bytes[2].first, 4);
  EXPECT_GT(plan.gpu_bytes[0].second, plan.feature_bytes + plan.costs.nested_dissection.bytes / 2);
  EXPECT_LT(plan.gpu_bytes[1].second, 0.9 * plan.gpu_bytes[0].second);
  EXPECT_LT(plan.gpu_bytes[2].second, 0.9 * plan.gpu_bytes[1].second);
  EXPECT_THAT(plan.text(), HasSubstr("GB on a GPU, "));
}

TEST(FbpinnBadInput, WrongTerms_AreRefusedWithWords) {
  const auto refused = [](const std::function<void(Problem&)>& add,
                          const std::vector<std::string>& words) {
    Problem problem(Boxes::regular(square, {2, 2}, 2), {.hidden = {4}});
    expect_error([&] { add(problem); }, ErrorKind::invalid_argument, words);
  };
  const std::vector<double> point{0.5, 0.5};
  const auto value = [](Coordinates, const auto& u) { return u() * 1.0; };
  refused([&](Problem& p) { p.add("a", {}, value); }, {"'a'", "0 coordinates"});
  refused([&](Problem& p) { p.add("a", {0.5}, value); }, {"1 coordinates", "2 for each"});
  refused([&](Problem& p) { p.add("a", point, value, -1); }, {"weight -1", "positive"});
  refused([&](Problem& p) { p.add_data("a", point, {1, 2}, value); },
          {"2 measured values", "1 points"});
  refused(
      [&](Problem& p) {
        p.add_data("a", point, {std::numeric_limits<double>::quiet_NaN()}, value);
      },
      {"measured value 0", "nan"});
  refused(
      [&](Problem& p) { p.add("a", point, [](Coordinates, const auto& u) { return u(2) * 1.0; }); },
      {"axis 2", "has 2"});
  refused(
      [&](Problem& p) {
        p.add("a", point, [](Coordinates, const auto& u) { return u(0, 0, 0, 0, 0) * 1.0; });
      },
      {"order 5", "up to 4"});
  refused(
      [&](Problem& p) {
        p.add("a", point, [](Coordinates, const auto& u) { return u.field(1)() * 1.0; });
      },
      {"field 1", "has 1"});
  refused(
      [&](Problem& p) {
        p.add("a", point,
              [](Coordinates, const auto& u) { return std::remove_cvref_t<decltype(u())>(1.0); });
      },
      {"'a'", "reads nothing of u"});
  expect_error([] { Problem(Boxes::regular(square, {2, 2}, 2), {.hidden = {4}}, 0); },
               ErrorKind::invalid_argument, {"0 fields"});
}

TEST(FbpinnLeastSquares, PointsOfACall_DoNotChangeABit) {
  Mesh mesh = devices(2);
  const Trained expected = least_squares(mesh, poisson());
  for (const std::int64_t chunk : {1, 100, 100000}) {
    EXPECT_EQ(least_squares(mesh, poisson(), {.chunk = chunk}).last_layer, expected.last_layer)
        << chunk;
  }
}

/// Measured values at many points of a grid, shuffled if `seed` is not 0.
Problem measured(unsigned seed, bool bad = false) {
  const std::vector<double> points = grid(square, {75, 70});
  std::vector<std::size_t> order(points.size() / 2);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (seed != 0) {
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  }
  std::vector<double> shuffled;
  std::vector<double> values;
  for (const std::size_t p : order) {
    shuffled.insert(shuffled.end(), {points[2 * p], points[2 * p + 1]});
    values.push_back(poisson_solution(points.data() + 2 * p));
  }
  if (bad) {
    shuffled[2 * 4321] = 0.123;
  }
  Problem problem(Boxes::regular(square, {3, 3}, 2.5), {.hidden = {12}});
  problem.add_data("data", shuffled, values, [](Coordinates x, const auto& u) {
    return x[0] == 0.123 ? u() / 0.0 : u() * 1.0;
  });
  return problem;
}

TEST(FbpinnLeastSquares, ShuffledPoints_GiveTheSameNetworks) {
  Mesh mesh = devices(1);
  EXPECT_TRUE(measured(0).terms()[0].numbers.empty());
  EXPECT_EQ(measured(3).terms()[0].numbers.size(), 5250U);
  const Trained sorted = least_squares(mesh, measured(0));
  const Trained shuffled = least_squares(mesh, measured(3));
  EXPECT_NEAR(shuffled.loss / sorted.loss, 1.0, 1e-6);
  // Evaluated at the points of both, each value where its point is.
  const std::vector<double> points = grid(square, {75, 70});
  std::vector<double> twice = grid(square, {75, 70});
  std::mt19937 generator(5);
  std::vector<std::size_t> order(points.size() / 2);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), generator);
  for (std::size_t i = 0; i < order.size(); ++i) {
    twice[2 * i] = points[2 * order[i]];
    twice[2 * i + 1] = points[2 * order[i] + 1];
  }
  const std::vector<double> expected = sorted.evaluate(mesh, points);
  const std::vector<double> found = sorted.evaluate(mesh, twice);
  for (std::size_t i = 0; i < order.size(); ++i) {
    ASSERT_EQ(found[i], expected[order[i]]) << i;
  }
  EXPECT_NEAR(error_of(mesh, shuffled, points, poisson_solution) /
                  error_of(mesh, sorted, points, poisson_solution),
              1.0, 1e-3);
  twice[2 * 4000] = 9.0;
  expect_error([&] { sorted.evaluate(mesh, twice); }, ErrorKind::invalid_argument,
               {"point 4000 at (9, "});
}

TEST(FbpinnBadInput, ShuffledPoints_AreNamedAsTheyWereGiven) {
  Mesh mesh = devices(1);
  expect_error([&] { least_squares(mesh, measured(3, true)); }, ErrorKind::invalid_argument,
               {"not finite", "point 4321 at (0.123, "});
}

TEST(FbpinnBadInput, WrongProblems_AreRefusedWithWords) {
  Mesh mesh = devices(1);
  const auto refused = [&](const Problem& problem, const std::vector<std::string>& words,
                           const LeastSquaresOptions& options = {}) {
    expect_error([&] { least_squares(mesh, problem, options); }, ErrorKind::invalid_argument,
                 words);
  };
  const Problem empty(Boxes::regular(line, {3}, 2), {.hidden = {4}});
  refused(empty, {"0 terms"});
  const auto with = [&](std::vector<double> points, auto function) {
    Problem problem = empty;
    problem.add("equation", std::move(points), function);
    return problem;
  };
  const auto value = [](Coordinates, const auto& u) { return u() - 1; };
  refused(with({0.0, 0.5, 1.0, 1.75}, value),
          {"'equation'", "point 3 at (1.75)", "outside of every box"});
  refused(with({0.0, 0.1}, value), {"box 2", "(1)", "no point"});
  refused(with(grid(line, {9}), [](Coordinates x, const auto& u) { return u() / (x[0] - 0.5); }),
          {"'equation'", "not finite", "point 4 at (0.5)", "box "});
  refused(with(grid(line, {9}), [](Coordinates, const auto& u) { return u() * 0.0; }),
          {"'equation'", "derivative 0"});
  refused(with(grid(line, {9}),
               [](Coordinates x, const auto& u) { return x[0] > 0.5 ? u(0) * 1.0 : u() * 1.0; }),
          {"did not read at the first"});
  const Problem good = with(grid(line, {30}), value);
  refused(good, {"5 hidden weights", "24 are needed"}, {.hidden_weights = {1, 2, 3, 4, 5}});
  std::vector<double> weights(24, 0.5);
  weights[7] = std::numeric_limits<double>::quiet_NaN();
  refused(good, {"hidden weight 7 is nan"}, {.hidden_weights = weights});
  refused(good, {"rank_tolerance = 2"}, {.rank_tolerance = 2});
  refused(good, {"max_cg_steps = 0"}, {.max_cg_steps = 0});
  refused(good, {"cg_tolerance = 1"}, {.cg_tolerance = 1});
  refused(good, {"max_iterations = 0"}, {.max_iterations = 0});
  refused(good, {"tolerance = 0"}, {.tolerance = 0});
  refused(good, {"chunk = -1"}, {.chunk = -1});
  const Trained trained = least_squares(mesh, good);
  expect_error([&] { trained.evaluate(mesh, std::vector<double>{0.5, 7.0}); },
               ErrorKind::invalid_argument, {"point 1 at (7)"});
  expect_error([&] { relative_error({}, {}); }, ErrorKind::invalid_argument, {"0 values"});
  expect_error([] { grid({{0, 1}}, {0}); }, ErrorKind::invalid_argument, {"counts from 1"});
}

TEST(FbpinnLeastSquares, Progress_NamesThePhases) {
  Mesh mesh = Mesh::host(2);
  std::set<std::string> phases;
  RunOptions run;
  run.progress = [&](const Progress& progress) { phases.emplace(progress.phase); };
  least_squares(mesh, poisson(), {}, run);
  for (const char* const phase : {"windows", "residual", "features", "factor", "solve"}) {
    EXPECT_TRUE(phases.contains(phase)) << phase;
  }
}

TEST(FbpinnLeastSquares, StopRequested_LeavesWithCancelled) {
  Mesh mesh = devices(2);
  std::stop_source stop;
  stop.request_stop();
  expect_error([&] { least_squares(mesh, poisson(), {}, {.cancel = stop.get_token()}); },
               ErrorKind::cancelled, {"cancelled as asked"});
}

}  // namespace
}  // namespace shardsolve::fbpinn
