// Points along a curve, and how many a call gets.

#include "fbpinn/chunks.hpp"
#include "fbpinn/point_order.hpp"

#include <shardsolve/fbpinn.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace shardsolve::fbpinn {
namespace {

std::vector<double> at_random(std::int64_t count, int axes) {
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<double> uniform(-2.0, 5.0);
  std::vector<double> points(static_cast<std::size_t>(count * axes));
  std::generate(points.begin(), points.end(), [&] { return uniform(generator); });
  return points;
}

TEST(FbpinnPointOrder, PointsAtRandom_AreAllThereAndNearTheNextOne) {
  for (const int axes : {1, 2, 3, 4}) {
    const std::int64_t count = 6000;
    std::vector<double> points = at_random(count, axes);
    const std::vector<double> given = points;
    const std::vector<std::int32_t> order = local_order(points.data(), count, axes);
    ASSERT_EQ(order.size(), 6000U) << axes;
    std::vector<std::int32_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (std::int32_t i = 0; i < count; ++i) {
      ASSERT_EQ(sorted[static_cast<std::size_t>(i)], i);
    }
    reorder(order, axes, points);
    const auto length = [&](const std::vector<double>& of) {
      double sum = 0.0;
      for (std::size_t i = static_cast<std::size_t>(axes); i < of.size(); ++i) {
        sum += std::abs(of[i] - of[i - static_cast<std::size_t>(axes)]);
      }
      return sum;
    };
    EXPECT_LT(length(points), 0.4 * length(given)) << axes;
    for (int axis = 0; axis < axes; ++axis) {
      EXPECT_EQ(points[static_cast<std::size_t>(5 * axes + axis)],
                given[static_cast<std::size_t>(order[5] * axes + axis)]);
    }
  }
}

TEST(FbpinnPointOrder, GridsAndFewPoints_StayAsTheyAre) {
  for (const std::vector<std::int64_t>& counts :
       {std::vector<std::int64_t>{5000}, {80, 70}, {20, 20, 20}, {9, 9, 9, 9}}) {
    const std::vector<Interval> domain(counts.size());
    const std::vector<double> points = grid(domain, counts);
    const auto axes = static_cast<int>(counts.size());
    EXPECT_TRUE(
        local_order(points.data(), static_cast<std::int64_t>(points.size()) / axes, axes).empty())
        << axes;
  }
  EXPECT_TRUE(local_order(at_random(1000, 2).data(), 1000, 2).empty());
  std::vector<double> bad = at_random(6000, 2);
  bad[77] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(local_order(bad.data(), 6000, 2).empty());
  const std::vector<double> same(12000, 0.5);
  EXPECT_TRUE(local_order(same.data(), 6000, 2).empty());
}

TEST(FbpinnChunks, MoreNumbersAPoint_AreFewerPoints) {
  EXPECT_EQ(points_of_call(0, 5), 2048);
  EXPECT_EQ(points_of_call(0, 16), 2048);
  EXPECT_EQ(points_of_call(0, 17), 1024);
  EXPECT_EQ(points_of_call(0, 65), 512);
  EXPECT_EQ(points_of_call(0, std::int64_t{1} << 40), 512);
  EXPECT_EQ(points_of_call(33, 17), 33);
}

}  // namespace
}  // namespace shardsolve::fbpinn
