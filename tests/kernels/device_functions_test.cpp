// Residuals that are evaluated on devices against those of the host: the same bits, as the
// functions here are the same.

#include "kernels/emulated_gpu.hpp"
#include "kernels/orders.hpp"
#include "tests/support/box_cases.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/fbpinn.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numbers>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing::device_functions {
namespace {

using namespace fbpinn;
using runtime::cuda::BoxDeviceKernels;
using std::numbers::pi;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Calls {
  std::atomic<int> on_devices = 0;
  std::atomic<int> on_host = 0;
  std::atomic<int> declines_from = std::numeric_limits<int>::max();
};

/// What a function left in the memory of one device.
struct Held {
  std::vector<double> r, a, b;
};

Residual counted(const Residual& residual, const std::shared_ptr<Calls>& calls, bool has_device) {
  Residual result = residual;
  result.evaluate = [=](const PointBatch& batch, double* r) {
    ++calls->on_host;
    residual.evaluate(batch, r);
  };
  result.linearise = [=](const PointBatch& batch, double* r, double* a, double* b) {
    ++calls->on_host;
    residual.linearise(batch, r, a, b);
  };
  if (!has_device) {
    return result;
  }
  const auto held = std::make_shared<std::array<Held, 4>>();
  result.on_device = [=](std::int64_t rank, const PointBatch& batch,
                         bool derivatives) -> std::optional<ResidualInDeviceMemory> {
    if (++calls->on_devices > calls->declines_from) {
      return std::nullopt;
    }
    // New memory each time, a little too long and full of NaN.
    const auto numbers = static_cast<std::size_t>(batch.count * residual.equations);
    const auto jets = static_cast<std::size_t>(batch.fields * batch.set->size());
    const std::size_t others = batch.coefficients.size();
    Held& mine = (*held)[static_cast<std::size_t>(rank)];
    mine = {std::vector<double>(numbers + 3, nan), std::vector<double>(numbers * jets + 3, nan),
            std::vector<double>(numbers * others + 3, nan)};
    if (!derivatives) {
      residual.evaluate(batch, mine.r.data());
      return ResidualInDeviceMemory{mine.r.data(), nullptr, nullptr};
    }
    std::fill_n(mine.b.begin(), numbers * others, 0.0);
    residual.linearise(batch, mine.r.data(), mine.a.data(), mine.b.data());
    return ResidualInDeviceMemory{mine.r.data(), mine.a.data(),
                                  others == 0 ? nullptr : mine.b.data()};
  };
  return result;
}

/// The same with functions that count their calls, and have others for devices.
Problem with_calls(const Problem& given, const std::shared_ptr<Calls>& calls,
                   bool has_device = true) {
  Problem problem(given.boxes(), given.mlp(), given.fields());
  for (const Coefficient& one : given.coefficients()) {
    problem.add_coefficient(one.name, Interval{0, 1}, static_cast<std::int64_t>(one.start.size()),
                            one.start);
  }
  for (const Term& term : given.terms()) {
    problem.add_term({.name = term.name,
                      .points = term.points,
                      .residual = counted(term.residual, calls, has_device),
                      .weight = term.weight,
                      .targets = term.targets});
  }
  return problem;
}

const std::vector<Interval> line{{0, 1}};
const std::vector<Interval> square{{0, 1}, {0, 1}};

void add_ends(Problem& problem) {
  problem.add("ends", {0.0, 1.0}, [](Coordinates, const auto& u) { return u() * 1.0; }, 3.0);
}

/// u'' = a f for an unknown a: linear in both.
Problem with_unknown_strength() {
  Problem problem(Boxes::regular(line, {5}, 2.5), {.hidden = {5}});
  const ScalarCoefficient strength = problem.add_coefficient("strength", 0.0);
  problem.add("interior", grid(line, {60}), [=](Coordinates x, const auto& u, const auto& c) {
    return u(0, 0) - c(strength) * std::sin(pi * x[0]);
  });
  problem.add_data("data", {0.5, 0.7}, {1.0, std::sin(0.7 * pi)},
                   [](Coordinates, const auto& u) { return u() * 1.0; });
  add_ends(problem);
  return problem;
}

/// u'' + a u = 0 for an unknown a: linear in u if a is fixed.
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
  problem.add("interior", grid(line, {120}), [](Coordinates x, const auto& u) {
    const double s = std::sin(2 * pi * x[0]);
    const double c = std::cos(2 * pi * x[0]);
    return u() * u(0) - 0.1 * u(0, 0) - (2 * pi * s * c + 0.4 * pi * pi * s);
  });
  add_ends(problem);
  return problem;
}

/// Two equations for two fields: p = u_x, p_x + u_yy = f.
Problem first_order_system() {
  Problem problem(Boxes::regular(square, {3, 3}, 2.5), {.hidden = {5}}, 2);
  problem.add("interior", grid(square, {14, 12}), [](Coordinates x, const auto& u) {
    const auto p = u.field(1);
    return std::array{p() - u(0),
                      p(0) + u(1, 1) + 2 * pi * pi * std::sin(pi * x[0]) * std::sin(pi * x[1])};
  });
  std::vector<double> sides;
  for (int i = 0; i <= 20; ++i) {
    const double s = i / 20.0;
    for (const auto& [x, y] : {std::pair(s, 0.0), {s, 1.0}, {0.0, s}, {1.0, s}}) {
      sides.insert(sides.end(), {x, y});
    }
  }
  problem.add("sides", sides, [](Coordinates, const auto& u) { return u() * 1.0; }, 10.0);
  return problem;
}

std::vector<double> numbers_of(const Trained& trained) {
  std::vector<double> numbers{trained.certificate, trained.condition, trained.held_out_loss,
                              trained.is_linear ? 1.0 : 0.0};
  for (const auto* more : {&trained.losses, &trained.last_layer, &trained.hidden_weights,
                           &trained.coefficients, &trained.coefficient_deviations}) {
    numbers.insert(numbers.end(), more->begin(), more->end());
  }
  return numbers;
}

using Train = std::function<Trained(Mesh&, const Problem&)>;

/// Trains with functions for devices and without: the first never calls the host's.
void expect_same_bits(const Problem& given, const Train& train) {
  for (const std::int64_t ranks : {1, 3}) {
    SCOPED_TRACE(ranks);
    Mesh mesh = emulated_gpus(ranks);
    const auto host = std::make_shared<Calls>();
    const auto devices = std::make_shared<Calls>();
    const Trained expected = train(mesh, with_calls(given, host, false));
    const Trained trained = train(mesh, with_calls(given, devices));
    EXPECT_EQ(numbers_of(trained), numbers_of(expected));
    EXPECT_EQ(trained.warnings, expected.warnings);
    EXPECT_GT(host->on_host, 0);
    EXPECT_GT(devices->on_devices, 0);
    EXPECT_EQ(devices->on_host, 0);
  }
}

TEST(DeviceFunctions, TrainingHasTheBitsOfFunctionsOnTheHost) {
  for (const Problem& problem :
       {with_unknown_strength(), with_unknown_stiffness(), burgers(), first_order_system()}) {
    expect_same_bits(problem, [](Mesh& mesh, const Problem& one) {
      return least_squares(mesh, one, {.max_iterations = 3});
    });
  }
}

TEST(DeviceFunctions, CallsOfFewPointsHaveTheBitsOfFunctionsOnTheHost) {
  expect_same_bits(with_unknown_strength(), [](Mesh& mesh, const Problem& one) {
    return least_squares(mesh, one, {.chunk = 7});
  });
}

TEST(DeviceFunctions, DescentByAllWeightsHasTheBitsOfFunctionsOnTheHost) {
  expect_same_bits(burgers(), [](Mesh& mesh, const Problem& one) {
    return levenberg_marquardt(mesh, one, {.max_steps = 2});
  });
}

TEST(DeviceFunctions, ThoseThatDecline_LeaveItToTheHost) {
  Mesh mesh = emulated_gpu();
  const LeastSquaresOptions two{.max_iterations = 2};
  const std::vector<double> expected =
      numbers_of(least_squares(mesh, with_calls(burgers(), std::make_shared<Calls>(), false), two));
  for (const int first : {0, 1, 5}) {
    const auto calls = std::make_shared<Calls>();
    calls->declines_from = first;
    const Trained trained = least_squares(mesh, with_calls(burgers(), calls), two);
    EXPECT_EQ(numbers_of(trained), expected) << first;
    EXPECT_GT(calls->on_host, 0);
  }
}

TEST(DeviceFunctions, ConditionsAndUnitsOfTheCaller_AreTheHosts) {
  Mesh mesh = emulated_gpu();
  Problem constrained = burgers();
  Problem own(Boxes::regular(line, {3}, 2.5), box_cases::cosines(6, 3));
  own.add("interior", grid(line, {70}), [](Coordinates, const auto& u) { return u(0, 0) - 1.0; });
  add_ends(own);
  for (const bool is_own : {false, true}) {
    const auto calls = std::make_shared<Calls>();
    Problem problem = with_calls(is_own ? own : constrained, calls);
    if (!is_own) {
      problem.constrain([](auto x, auto v) { return (1 + x[0]) * v; });
    }
    EXPECT_TRUE(std::isfinite(least_squares(mesh, problem, {.max_iterations = 3}).loss));
    EXPECT_EQ(calls->on_devices, 0);
    EXPECT_GT(calls->on_host, 0);
  }
}

std::string refusal_of(Mesh& mesh, const Problem& problem) {
  try {
    least_squares(mesh, problem);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    return error.what();
  }
  return "";
}

/// While threads of the host make the points between.
TEST(DeviceFunctions, StopThatAFunctionAsksFor_EndsTheTraining) {
  Mesh mesh = emulated_gpu();
  const std::vector<double> expected = numbers_of(least_squares(mesh, first_order_system()));
  std::stop_source stop;
  Problem problem(Boxes::regular(square, {3, 3}, 2.5), {.hidden = {5}});
  problem.add("interior", grid(square, {120, 110}), [&stop](Coordinates, const auto& u) {
    stop.request_stop();
    return u() - 1.0;
  });
  try {
    least_squares(mesh, problem, {}, {.cancel = stop.get_token()});
    FAIL() << "was not cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled);
  }
  EXPECT_EQ(numbers_of(least_squares(mesh, first_order_system())), expected);
}

TEST(DeviceFunctions, WhatTheHostRefuses_IsRefusedInTheSameWords) {
  Problem infinite(Boxes::regular(line, {4}, 2.5), {.hidden = {5}});
  add_ends(infinite);
  infinite.add("equation", grid(line, {41}),
               [](Coordinates x, const auto& u) { return u(0) / (x[0] - 0.5); });
  Problem infinite_slope(Boxes::regular(line, {4}, 2.5), {.hidden = {5}});
  add_ends(infinite_slope);
  infinite_slope.add("equation", grid(line, {41}), [](Coordinates x, const auto& u) {
    const auto slope = u(0) * 1.0;
    return x[0] < 0.7 ? slope : slope + sqrt(u() * u());
  });
  Problem constant(Boxes::regular(line, {4}, 2.5), {.hidden = {5}});
  add_ends(constant);
  constant.add("equation", grid(line, {41}),
               [](Coordinates, const auto& u) { return 0.0 * u(0) + 1.0; });
  Problem infinite_coefficient(Boxes::regular(line, {4}, 2.5), {.hidden = {5}});
  const ScalarCoefficient power = infinite_coefficient.add_coefficient("power", 0.0);
  add_ends(infinite_coefficient);
  infinite_coefficient.add("equation", grid(line, {41}),
                           [=](Coordinates x, const auto& u, const auto& c) {
                             const auto slope = u(0) + c(power);
                             return x[0] < 0.3 ? slope : slope + sqrt(c(power) * c(power));
                           });
  std::set<std::string> words;
  for (const std::int64_t ranks : {1, 3}) {
    Mesh mesh = emulated_gpus(ranks);
    for (const Problem* problem : {&infinite, &infinite_slope, &constant, &infinite_coefficient}) {
      const std::string expected =
          refusal_of(mesh, with_calls(*problem, std::make_shared<Calls>(), false));
      EXPECT_NE(expected, "");
      EXPECT_EQ(refusal_of(mesh, with_calls(*problem, std::make_shared<Calls>())), expected);
      words.insert(expected);
    }
  }
  EXPECT_EQ(words.size(), 4);
}

std::int64_t first_nonfinite(const runtime::PointwisePart& part) {
  const auto warps = static_cast<std::size_t>(runtime::SeenByWarps::warps(part.numbers()));
  std::vector<std::int64_t> seen(warps, -1);
  BoxDeviceKernels::pointwise_rows(nullptr, part, seen.data());
  return *std::min_element(seen.begin(), seen.end());
}

TEST(DeviceFunctions, KernelMakesRowsAndFindsTheFirstPointThatIsNotFinite) {
  constexpr std::int64_t points = 301;
  constexpr std::int64_t equations = 2;
  constexpr std::int64_t jets = 3;
  constexpr std::int64_t coefficients = 2;
  const std::vector<double> r = box_cases::numbers(points * equations, 1);
  const std::vector<double> a = box_cases::numbers(points * equations * jets, 2);
  const std::vector<double> b = box_cases::numbers(points * equations * coefficients, 3);
  const std::vector<double> targets = box_cases::numbers(points * equations, 4);
  std::vector<double> residual(r.size(), nan);
  std::vector<double> derivatives(a.size(), nan);
  std::vector<double> by_coefficients(b.size(), nan);
  const runtime::PointwisePart part{r.data(),
                                    a.data(),
                                    b.data(),
                                    targets.data(),
                                    points,
                                    equations,
                                    jets,
                                    coefficients,
                                    0.25,
                                    residual.data(),
                                    derivatives.data(),
                                    by_coefficients.data()};
  in_each_order([&] {
    EXPECT_EQ(first_nonfinite(part), points);
    for (std::int64_t p = 0; p < points; ++p) {
      for (std::int64_t e = 0; e < equations; ++e) {
        const std::int64_t row = p * equations + e;
        EXPECT_EQ(residual[e * points + p], 0.25 * (r[row] - targets[row]));
        for (std::int64_t d = 0; d < jets; ++d) {
          EXPECT_EQ(derivatives[row * jets + d], 0.25 * a[row * jets + d]);
        }
        for (std::int64_t k = 0; k < coefficients; ++k) {
          EXPECT_EQ(by_coefficients[(k * equations + e) * points + p],
                    0.25 * b[row * coefficients + k]);
        }
      }
    }
  });
  for (const double bad : {nan, std::numeric_limits<double>::infinity()}) {
    for (const std::int64_t point : {0, 77, 300}) {
      for (int which = 0; which < 3; ++which) {
        std::array<std::vector<double>, 3> numbers{r, a, b};
        std::vector<double>& one = numbers[static_cast<std::size_t>(which)];
        const std::int64_t of_point = static_cast<std::int64_t>(one.size()) / points;
        one[static_cast<std::size_t>((point + 1) * of_point - 1)] = bad;
        one.back() = bad;
        runtime::PointwisePart with_bad = part;
        with_bad.r = numbers[0].data();
        with_bad.a = numbers[1].data();
        with_bad.b = numbers[2].data();
        EXPECT_EQ(first_nonfinite(with_bad), point) << which;
      }
    }
  }
}

/// What all warps have seen together.
std::pair<double, double> largest(const std::vector<double>& a, const std::vector<double>* b) {
  const auto count = static_cast<std::int64_t>(a.size());
  std::vector<double> seen(static_cast<std::size_t>(2 * runtime::SeenByWarps::warps(count)), -1.0);
  BoxDeviceKernels::largest(nullptr, a.data(), b == nullptr ? nullptr : b->data(), count,
                            seen.data());
  std::pair<double, double> result{0.0, 0.0};
  for (std::size_t i = 0; i < seen.size(); i += 2) {
    result.first = std::isnan(seen[i]) ? nan : std::max(seen[i], result.first);
    result.second = std::isnan(seen[i + 1]) ? nan : std::max(seen[i + 1], result.second);
  }
  return result;
}

TEST(DeviceFunctions, KernelFindsTheLargestNumberAndDifference) {
  std::vector<double> a = box_cases::numbers(1000, 1);
  std::vector<double> b = a;
  a[713] = -7.0;
  b[713] = -6.5;
  in_each_order([&] {
    EXPECT_EQ(largest(a, &b), std::pair(7.0, 0.5));
    EXPECT_EQ(largest(a, nullptr), std::pair(7.0, 0.0));
  });
  b[999] = nan;
  EXPECT_EQ(largest(a, &b).first, 7.0);
  EXPECT_TRUE(std::isnan(largest(a, &b).second));
}

}  // namespace
}  // namespace shardsolve::testing::device_functions
