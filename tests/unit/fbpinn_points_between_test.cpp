// Points between those of a training.

#include "fbpinn/points_between.hpp"

#include <shardsolve/fbpinn.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace shardsolve::fbpinn {
namespace {

const std::vector<Interval> unit_square{{0, 1}, {0, 1}};

PointsBetween between(const Boxes& boxes, const std::vector<double>& points,
                      std::int64_t most = 1000) {
  const auto count = static_cast<std::int64_t>(points.size()) / boxes.axes();
  const Pairs pairs = find_pairs(boxes, points.data(), count);
  return points_between(boxes, pairs, {points.data(), 0, count}, most);
}

std::vector<double> random_points(std::size_t count, int axes) {
  std::mt19937 generator(3);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::vector<double> points(count * static_cast<std::size_t>(axes));
  std::generate(points.begin(), points.end(), [&] { return uniform(generator); });
  return points;
}

std::vector<double> on_a_circle(int count) {
  std::vector<double> points;
  for (int i = 0; i < count; ++i) {
    points.insert(points.end(),
                  {0.5 + 0.4 * std::cos(6.2 * i / count), 0.5 + 0.4 * std::sin(6.2 * i / count)});
  }
  return points;
}

TEST(FbpinnPointsBetween, Grid_HasTheMiddlesOfItsCells) {
  const PointsBetween found =
      between(Boxes::regular(unit_square, {3, 3}, 2.9), grid(unit_square, {5, 3}));
  // 4 x 2 cells, and edges of the far sides.
  ASSERT_EQ(found.points.size(), 2U * (8 + 4 + 2));
  EXPECT_EQ(found.in_strips, 0);
  EXPECT_DOUBLE_EQ(found.points[0], 0.125);
  EXPECT_DOUBLE_EQ(found.points[1], 0.25);
}

TEST(FbpinnPointsBetween, GridWithAHole_HasNoneInTheHole) {
  std::vector<double> corner;
  const std::vector<double> all = grid(unit_square, {11, 11});
  for (std::size_t p = 0; p < all.size(); p += 2) {
    if (!(all[p] > 0.5 && all[p + 1] > 0.5)) {
      corner.insert(corner.end(), {all[p], all[p + 1]});
    }
  }
  const PointsBetween found = between(Boxes::regular(unit_square, {3, 3}, 2.9), corner);
  EXPECT_GT(found.points.size(), 100U);
  for (std::size_t p = 0; p < found.points.size(); p += 2) {
    EXPECT_FALSE(found.points[p] > 0.5 + 1e-12 && found.points[p + 1] > 0.5 + 1e-12);
  }
}

TEST(FbpinnPointsBetween, LatticeWithAHoleOfWholeColumns_HasNoneInTheHole) {
  std::vector<double> sides;
  std::vector<double> random;
  const std::vector<double> all = grid(unit_square, {21, 11});
  const std::vector<double> luck = random_points(21, 1);
  for (std::size_t p = 0; p < all.size(); p += 2) {
    if (!(all[p] > 0.42 && all[p] < 0.83)) {
      sides.insert(sides.end(), {all[p], all[p + 1]});
    }
    // columns anywhere: a long step is no hole
    random.insert(random.end(), {luck[p / 22], all[p + 1]});
  }
  const Boxes boxes = Boxes::regular(unit_square, {3, 3}, 2.9);
  const PointsBetween found = between(boxes, sides);
  EXPECT_GT(found.points.size(), 100U);
  for (std::size_t p = 0; p < found.points.size(); p += 2) {
    EXPECT_FALSE(found.points[p] > 0.41 && found.points[p] < 0.84) << found.points[p];
  }
  EXPECT_EQ(between(boxes, random).points.size(), 2U * (20 * 10 + 20 + 10));
}

TEST(FbpinnPointsBetween, AroundASquare_TheyLieOnItsSides) {
  std::vector<double> sides;
  for (int i = 0; i <= 20; ++i) {
    const double s = i / 20.0;
    sides.insert(sides.end(), {s, 0.0, s, 1.0, 0.0, s, 1.0, s});
  }
  const PointsBetween found = between(Boxes::regular(unit_square, {3, 3}, 2.9), sides);
  EXPECT_GT(found.points.size(), 100U);
  for (std::size_t p = 0; p < found.points.size(); p += 2) {
    const auto is_end = [](double x) { return x == 0.0 || x == 1.0; };
    EXPECT_TRUE(is_end(found.points[p]) || is_end(found.points[p + 1])) << p;
  }
}

TEST(FbpinnPointsBetween, NarrowStrips_HaveSomeThoughTheGridMissesThem) {
  const PointsBetween found =
      between(Boxes::regular({{0, 1}}, {6}, 1.01), grid({{0, 1}}, {200}), 50);
  // Those at 0.1 and 0.9 have a point each.
  EXPECT_EQ(found.in_strips, 3);
  const std::vector<double> strips(found.points.end() - 3, found.points.end());
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_NEAR(strips[k], 0.3 + 0.2 * static_cast<double>(k), 0.001);
  }
  EXPECT_EQ(between(Boxes::regular({{0, 1}}, {6}, 1.5), grid({{0, 1}}, {200})).in_strips, 0);
}

TEST(FbpinnPointsBetween, ScatteredPoints_HaveMiddlesThatCurvesDoNot) {
  const Boxes boxes = Boxes::regular(unit_square, {3, 3}, 2.9);
  EXPECT_GT(between(boxes, random_points(500, 2)).points.size(), 2U * 450);
  EXPECT_EQ(between(boxes, on_a_circle(200)).points.size(), 0U);
  EXPECT_EQ(between(boxes, {0.5, 0.5}).points.size(), 0U);
  EXPECT_LE(between(boxes, random_points(500, 2), 100).points.size(), 2U * 100);
}

TEST(FbpinnPointsBetween, WhatFillsSpace) {
  const auto fills = [](const std::vector<double>& points, int axes) {
    return fill_space({points.data(), 0, static_cast<std::int64_t>(points.size()) / axes}, axes);
  };
  EXPECT_TRUE(fills(grid(unit_square, {9, 7}), 2));
  EXPECT_TRUE(fills(random_points(300, 2), 2));
  EXPECT_TRUE(fills(random_points(300, 3), 3));
  EXPECT_TRUE(fills(random_points(300, 1), 1));
  EXPECT_FALSE(fills(grid({{0, 0.5}, {0, 1}}, {1, 20}), 2));
  EXPECT_FALSE(fills(on_a_circle(100), 2));
  EXPECT_FALSE(fills({0.0, 1.0}, 1));
  EXPECT_FALSE(fills({0.0}, 1));
}

}  // namespace
}  // namespace shardsolve::fbpinn
