#include "tests/support/network_jobs.hpp"

#include "fbpinn/linear_step.hpp"
#include "fbpinn/on_ranks.hpp"
#include "tests/support/box_cases.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/fbpinn.hpp>

#include <fmt/format.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace network_cases {

using namespace fbpinn;
using std::numbers::pi;

const std::vector<Interval> line{{0, 1}};
const std::vector<Interval> square{{0, 1}, {0, 1}};

void append(std::vector<double>& numbers, std::span<const double> more) {
  numbers.insert(numbers.end(), more.begin(), more.end());
}

/// All that is found, and u at other points.
std::vector<double> numbers_of(Mesh& mesh, const Trained& trained,
                               const std::vector<double>& points) {
  std::vector<double> numbers{trained.certificate, trained.condition, trained.held_out_loss};
  append(numbers, trained.losses);
  append(numbers, trained.last_layer);
  append(numbers, trained.hidden_weights);
  append(numbers, trained.coefficients);
  append(numbers, trained.coefficient_deviations);
  if (!points.empty()) {
    append(numbers, trained.evaluate(mesh, points, 7));
  }
  return numbers;
}

/// u'' = a f for an unknown a: linear in both.
Problem with_unknown_strength() {
  Problem problem(Boxes::regular(line, {5}, 2.5), {.hidden = {5}});
  const ScalarCoefficient strength = problem.add_coefficient("strength", 0.0);
  problem.constrain([](auto x, auto v) { return x[0] * (1 - x[0]) * v; });
  problem.add("interior", grid(line, {40}), [=](Coordinates x, const auto& u, const auto& c) {
    return u(0, 0) - c(strength) * std::sin(pi * x[0]);
  });
  problem.add_data("data", {0.5}, {1.0}, [](Coordinates, const auto& u) { return u() * 1.0; });
  return problem;
}

/// u'' + a u = 0 for an unknown a, which is 25: not linear.
Problem with_unknown_stiffness() {
  Problem problem(Boxes::regular(line, {4}, 2.9), {.hidden = {8}});
  const ScalarCoefficient stiffness = problem.add_coefficient("stiffness", 20.0);
  problem.add(
      "interior", grid(line, {60}),
      [=](Coordinates, const auto& u, const auto& c) { return u(0, 0) + c(stiffness) * u(); },
      1e-2);
  const std::vector<double> points = grid(line, {20});
  std::vector<double> values;
  for (const double x : points) {
    values.push_back(std::cos(5 * x));
  }
  problem.add_data("data", points, values, [](Coordinates, const auto& u) { return u() * 1.0; });
  return problem;
}

/// u u' = u'' / 10 + f.
Problem burgers() {
  Problem problem(Boxes::regular(line, {6}, 2.9), {.hidden = {8}});
  problem.constrain([](auto x, auto v) { return x[0] * (1 - x[0]) * v; });
  problem.add("interior", grid(line, {120}), [](Coordinates x, const auto& u) {
    const double s = std::sin(2 * pi * x[0]);
    const double c = std::cos(2 * pi * x[0]);
    return u() * u(0) - 0.1 * u(0, 0) - (2 * pi * s * c + 0.4 * pi * pi * s);
  });
  return problem;
}

Problem laplace(const Mlp& mlp, std::vector<std::int64_t> boxes) {
  Problem problem(Boxes::regular(square, boxes, 2.5), mlp);
  problem.constrain([](auto x, auto v) { return x[0] * (1 - x[0]) * x[1] * (1 - x[1]) * v; });
  problem.add("interior", grid(square, {14, 12}), [](Coordinates x, const auto& u) {
    return u(0, 0) + u(1, 1) + 2 * pi * pi * std::sin(pi * x[0]) * std::sin(pi * x[1]);
  });
  return problem;
}

/// A step and jets with random numbers.
std::vector<double> step_of(const box_cases::Case& one, Mesh& mesh, const RunOptions& options,
                            const sparse::JointFronts& joint) {
  sparse::Workers workers = on_ranks(mesh, options);
  workers.joint_fronts = joint;
  const TrainingGeometry geometry(one.boxes, one.set, one.fields, one.points, one.terms, workers);
  const std::vector<double> hidden =
      one.mlp.random_weights(one.boxes.axes(), one.boxes.count(), 4, 6.0);
  const LinearStep step =
      linear_step(geometry, one.mlp, hidden, box_cases::numbers(geometry.derivatives, 2),
                  box_cases::numbers(geometry.rows * one.coefficients, 6),
                  box_cases::numbers(geometry.rows, 5), one.tolerance, workers);
  std::vector<double> numbers{step.certificate, step.condition, step.shift};
  append(numbers, step.change);
  append(numbers, step.coefficients);
  append(numbers, step.residual);
  append(numbers, std::vector<double>(step.rank.begin(), step.rank.end()));
  append(numbers, box_cases::jets_of(one, geometry, hidden, step.change, workers));
  return numbers;
}

NetworkJob training(std::string name, const Problem& problem, const std::vector<double>& points,
                    const LeastSquaresOptions& how = {}) {
  return {std::move(name), [=](Mesh& mesh, const RunOptions& options) {
            return numbers_of(mesh, least_squares(mesh, problem, how, options), points);
          }};
}

NetworkJob step(std::string name, const box_cases::Case& one, const sparse::JointFronts& joint) {
  return {std::move(name), [=](Mesh& mesh, const RunOptions& options) {
            return step_of(one, mesh, options, joint);
          }};
}

}  // namespace network_cases

std::vector<double> train_few_networks(Mesh& mesh, const RunOptions& options) {
  using namespace network_cases;
  Problem problem(Boxes::regular(line, {4}, 2.5), {.hidden = {3}});
  problem.constrain([](auto x, auto v) { return x[0] * (1 - x[0]) * v; });
  problem.add("interior", grid(line, {24}),
              [](Coordinates, const auto& u) { return u(0, 0) - 1.0; });
  return numbers_of(mesh, least_squares(mesh, problem, {}, options), {});
}

std::string answer_of(Mesh& mesh, const NetworkJob& job) {
  try {
    const std::vector<double> numbers = job.run(mesh, {});
    std::uint64_t hash = 14695981039346656037U;  // FNV-1a, by numbers
    for (const double number : numbers) {
      hash = (hash ^ std::bit_cast<std::uint64_t>(number)) * 1099511628211U;
    }
    return fmt::format("{}: {} numbers, {:016x}", job.name, numbers.size(), hash);
  } catch (const Error& error) {
    return fmt::format("{}: {}", job.name, error.what());
  }
}

std::vector<double> train_failing_networks(Mesh& mesh, const RunOptions& options, bool fails) {
  using namespace network_cases;
  Problem problem(Boxes::regular(line, {4}, 2.5), {.hidden = {4}});
  problem.constrain([](auto x, auto v) { return x[0] * v; });
  const auto throws = std::make_shared<std::atomic<bool>>(false);
  problem.add("interior", grid(line, {40}), [=](Coordinates, const auto& u) {
    if (*throws) {
      throw Error(ErrorKind::io, "planted");
    }
    return u(0) - 1.0;
  });
  *throws = fails;  // add() has called it, too
  return numbers_of(mesh, least_squares(mesh, problem, {.chunk = 5}, options), {});
}

std::vector<NetworkJob> network_jobs() {
  using namespace network_cases;
  const std::vector<double> on_line = grid(line, {53});
  const std::vector<double> on_square = grid(square, {13, 11});
  std::vector<NetworkJob> all{
      {"few", train_few_networks},
      training("strength", with_unknown_strength(), on_line),
      training("linear", laplace({.hidden = {12}}, {4, 3}), on_square),
      training("not_linear", burgers(), on_line),
      training("coefficients", with_unknown_stiffness(), on_line),
      training("without_a_factor", laplace({.hidden = {4}}, {3, 2}), on_square,
               {.rank_tolerance = 1e-3, .method = LinearMethod::cg, .cg_tolerance = 1e-4}),
      step("two_fields_and_a_border", box_cases::cases()[6], {}),
      step("own_units", box_cases::cases().back(), {}),
      step("fronts_on_one_rank", box_cases::grid_of_boxes(), {.least_flops = 1e12}),
      step("joint_fronts", box_cases::grid_of_boxes(), {0, 64, 64})};
  const Problem small = laplace({.hidden = {4}}, {3, 2});
  using Equations = LevenbergMarquardtOptions::Equations;
  for (const auto& [name, equations] : {std::pair("all_weights", Equations::of_parameters),
                                        {"all_weights_by_samples", Equations::of_samples}}) {
    all.push_back({name, [=](Mesh& mesh, const RunOptions& options) {
                     LevenbergMarquardtOptions how;
                     how.max_steps = 4;
                     how.equations = equations;
                     const Trained trained = levenberg_marquardt(mesh, small, how, options);
                     std::vector<double> numbers = numbers_of(mesh, trained, on_square);
                     append(numbers, trained.descent.losses);
                     return numbers;
                   }});
  }
  return all;
}

}  // namespace shardsolve::testing
