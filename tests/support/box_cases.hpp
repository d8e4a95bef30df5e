/// Problems that are solved on GPUs and on CPUs, and how near the results are to be.
#pragma once

#include "fbpinn/linear_step.hpp"
#include "fbpinn/training_geometry.hpp"
#include "matgen/philox.hpp"

#include <shardsolve/fbpinn.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <string>
#include <vector>

namespace shardsolve::testing::box_cases {

using namespace fbpinn;
using std::numbers::pi;

/// Uniform in [-1, 1).
inline double number(std::int64_t i, std::int64_t j) {
  return matgen::uniform_pair(11, matgen::Stream::point, i, j)[0];
}
inline std::vector<double> numbers(std::int64_t count, std::int64_t stream) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < count; ++i) {
    result.push_back(number(i, stream));
  }
  return result;
}

inline void expect_near(std::span<const double> x, std::span<const double> expected,
                        double tolerance) {
  ASSERT_EQ(x.size(), expected.size());
  double largest = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(x[i] - expected[i]));
  }
  EXPECT_LE(difference, tolerance * largest);
}

/// Boxes, networks and points of one problem.
struct Case {
  std::string name;
  Boxes boxes;
  Mlp mlp;
  JetSet set;
  int fields = 1;
  std::vector<TermShape> terms;
  std::vector<double> points;
  double tolerance = 1e-7;  ///< of ranks
  std::int64_t coefficients = 0;
};

inline std::vector<double> points_inside(int axes, std::int64_t count) {
  std::vector<double> points;
  for (std::int64_t i = 0; i < count * axes; ++i) {
    points.push_back(0.5 + 0.5 * number(i, 3));
  }
  return points;
}

/// cos(k s x), k = 1, 2, ...; s is each box's parameter.
inline Mlp cosines(std::int64_t count, std::int64_t boxes) {
  OwnUnits units;
  units.count = count;
  units.jets = [count](const JetSet& set, std::int64_t, const double* parameters,
                       std::int64_t points, const double* at, double* jets) {
    for (std::int64_t p = 0; p < points; ++p) {
      for (std::int64_t k = 1; k <= count; ++k) {
        const double rate = *parameters * static_cast<double>(k);
        for (int d = 0; d < set.size(); ++d) {
          const int order = set[d][0];
          *jets++ = std::pow(rate, order) * std::cos(rate * at[p] + order * pi / 2);
        }
      }
    }
  };
  units.parameters = 1;
  for (std::int64_t box = 0; box < boxes; ++box) {
    units.start.push_back(1.0 + 0.1 * static_cast<double>(box));
  }
  return Mlp::of(units);
}

inline std::vector<Case> cases() {
  const std::vector<Interval> line{{0, 1}};
  const std::vector<Interval> square{{0, 1}, {0, 1}};
  std::vector<Case> result;
  for (const Activation activation :
       {Activation::tanh, Activation::sin, Activation::sigmoid, Activation::softplus,
        Activation::gaussian, Activation::silu}) {
    result.push_back({"activation " + std::to_string(static_cast<int>(activation)),
                      Boxes::regular(line, {3}, 2.5),
                      {.hidden = {5}, .activation = activation},
                      JetSet::full(1, 4),
                      1,
                      {{60, 1}},
                      points_inside(1, 60)});
  }
  result.push_back({"two fields, two terms",
                    Boxes::regular(square, {3, 2}, 2.5),
                    {.hidden = {9}},
                    JetSet::full(2, 2),
                    2,
                    {{90, 2}, {30, 1}},
                    points_inside(2, 120),
                    1e-7,
                    2});
  result.push_back({"two layers",
                    Boxes::regular(square, {2, 2}, 2.5),
                    {.hidden = {4, 6}},
                    JetSet::full(2, 3),
                    1,
                    {{70, 1}},
                    points_inside(2, 70)});
  Case levels{"two levels",
              Boxes::regular(square, {2, 2}, 2.5),
              {.hidden = {7}},
              JetSet::full(2, 2),
              1,
              {{200, 1}},
              points_inside(2, 200),
              1e-3};
  levels.boxes.add_level(Boxes::regular(square, {1, 1}, 2.5));
  result.push_back(levels);
  result.push_back({"more columns than a tile",
                    Boxes::regular(line, {3}, 1.6),
                    {.hidden = {70}},
                    JetSet::full(1, 1),
                    1,
                    {{400, 1}},
                    points_inside(1, 400),
                    1e-3});
  result.push_back({"fewer rows than columns",
                    Boxes::regular(line, {4}, 1.1),
                    {.hidden = {20}},
                    JetSet::full(1, 1),
                    1,
                    {{30, 1}},
                    points_inside(1, 30),
                    1e-1});
  result.push_back({"own units",
                    Boxes::regular(line, {3}, 2.5),
                    cosines(6, 3),
                    JetSet::full(1, 2),
                    1,
                    {{70, 1}},
                    points_inside(1, 70),
                    1e-3});
  return result;
}

/// With a tree of several levels.
inline Case grid_of_boxes() {
  const std::vector<Interval> square{{0, 1}, {0, 1}};
  return {"a grid of boxes",
          Boxes::regular(square, {9, 5}, 2.0),
          {.hidden = {4}},
          JetSet::full(2, 2),
          1,
          {{900, 1}},
          points_inside(2, 900),
          1e-4,
          1};
}

inline Numbers<double> jets_of(const Case& one, const TrainingGeometry& geometry,
                               const std::vector<double>& hidden, const std::vector<double>& last,
                               const sparse::Workers& workers) {
  return jets_of_networks(one.boxes, one.mlp, one.set, one.fields, geometry.at, hidden, last,
                          workers);
}

/// Jets, and a linear step for random numbers.
inline void expect_same_steps(const Case& one, const sparse::Workers& gpu) {
  SCOPED_TRACE(one.name);
  const sparse::Workers cpu;
  const TrainingGeometry geometry(one.boxes, one.set, one.fields, one.points, one.terms, cpu);
  const std::vector<double> hidden =
      one.mlp.random_weights(one.boxes.axes(), one.boxes.count(), 4, 6.0);
  const std::vector<double> last = numbers(one.boxes.count() * one.fields * one.mlp.features(), 1);
  expect_near(jets_of(one, geometry, hidden, last, gpu), jets_of(one, geometry, hidden, last, cpu),
              1e-13);
  const std::vector<double> derivatives = numbers(geometry.derivatives, 2);
  const std::vector<double> border = numbers(geometry.rows * one.coefficients, 6);
  const std::vector<double> residual = numbers(geometry.rows, 5);
  const LinearStep expected =
      linear_step(geometry, one.mlp, hidden, derivatives, border, residual, one.tolerance, cpu);
  const LinearStep step =
      linear_step(geometry, one.mlp, hidden, derivatives, border, residual, one.tolerance, gpu);
  ASSERT_TRUE(expected.is_factored && step.is_factored);
  EXPECT_EQ(step.rank, expected.rank);
  EXPECT_EQ(step.shift, expected.shift);
  // Its start is a vector in the basis that the blocks are, whose signs differ.
  EXPECT_LT(step.condition, 10 * expected.condition);
  EXPECT_GT(step.condition, 0.1 * expected.condition);
  expect_near(step.residual, expected.residual, 1e-10);
  expect_near(step.coefficients, expected.coefficients, 1e-8);
  expect_near(jets_of(one, geometry, hidden, step.change, cpu),
              jets_of(one, geometry, hidden, expected.change, cpu), 1e-8);
}

inline Problem poisson() {
  const std::vector<Interval> square{{0, 1}, {0, 1}};
  Problem problem(Boxes::regular(square, {4, 3}, 2.5), {.hidden = {20}});
  problem.constrain([](auto x, auto v) { return sin(pi * x[0]) * sin(pi * x[1]) * v; });
  problem.add("interior", grid(square, {30, 24}), [](Coordinates x, const auto& u) {
    return u(0, 0) + u(1, 1) + 5 * pi * pi * std::sin(2 * pi * x[0]) * std::sin(pi * x[1]);
  });
  return problem;
}

}  // namespace shardsolve::testing::box_cases
