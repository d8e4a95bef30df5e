// Boxes, which points are in them, and their windows.

#include "fbpinn/pairs.hpp"
#include "fbpinn/windows.hpp"
#include "matgen/philox.hpp"
#include "tests/support/nested_jets.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/fbpinn.hpp>
#include <shardsolve/fbpinn_boxes.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace shardsolve::fbpinn {
namespace {

using testing::expect_error;
using testing::nested_derivative;

double uniform(std::uint64_t seed, std::int64_t i) {
  return matgen::uniform_pair(seed, matgen::Stream::point, i, 0)[0];
}

std::vector<double> random_points(int axes, std::int64_t count, std::uint64_t seed) {
  std::vector<double> points;
  for (std::int64_t i = 0; i < count * axes; ++i) {
    points.push_back(uniform(seed, i));
  }
  return points;
}

/// Boxes of all sizes over [-1, 1]^axes, one of them over all of it.
Boxes random_boxes(int axes, std::int64_t count, std::uint64_t seed) {
  std::vector<double> centers;
  std::vector<double> half_widths;
  for (std::int64_t i = 0; i < count * axes; ++i) {
    centers.push_back(uniform(seed + 1, i));
    half_widths.push_back(0.05 + std::pow(uniform(seed + 2, i), 4));
  }
  std::fill_n(centers.begin(), axes, 0.0);
  std::fill_n(half_widths.begin(), axes, 1.2);
  return Boxes::from_arrays(axes, centers, half_widths);
}

TEST(FbpinnBoxes, Regular_HaveTheirCentersOnTheEnds) {
  const Boxes boxes = Boxes::regular({{0, 1}, {-1, 3}}, {3, 2}, 2.9);
  ASSERT_EQ(boxes.count(), 6);
  EXPECT_EQ(boxes.center(0)[0], 0.0);
  EXPECT_EQ(boxes.center(1)[1], 3.0);
  EXPECT_EQ(boxes.center(5)[0], 1.0);
  EXPECT_DOUBLE_EQ(boxes.half_width(2)[0], 0.725);
  EXPECT_DOUBLE_EQ(boxes.half_width(2)[1], 5.8);
}

TEST(FbpinnBoxes, WrongOnes_AreRefused) {
  const auto refused = [](const std::function<void()>& make,
                          const std::vector<std::string>& words) {
    expect_error(make, ErrorKind::invalid_argument, words);
  };
  refused([] { Boxes::regular({{0, 1}}, {4, 4}, 2); }, {"1 intervals", "2 counts"});
  refused([] { Boxes::regular({}, {}, 2); }, {"0 intervals"});
  refused([] { Boxes::regular({{1, 1}}, {4}, 2); }, {"from 1 to 1", "axis 0"});
  refused([] { Boxes::regular({{0, 1}}, {0}, 2); }, {"0 boxes", "axis 0"});
  refused([] { Boxes::regular({{0, 1}}, {4}, 1.0); }, {"overlap = 1 given", "more than 1"});
  refused([] { Boxes::regular({{0, 1}, {0, 1}}, {1 << 12, 1 << 12}, 2); }, {"fewer"});
  refused([] { Boxes::from_arrays(2, {0, 0, 1}, {1, 1, 1}); }, {"3 numbers of centers", "2 n"});
  refused([] { Boxes::from_arrays(1, {0, 1}, {1, 0}); }, {"box 1", "half width 0"});
  refused([] { Boxes::from_arrays(5, {0}, {1}); }, {"5 axes"});
  refused(
      [] {
        Boxes boxes = Boxes::regular({{0, 1}}, {4}, 2);
        boxes.add_level(Boxes::regular({{0, 1}, {0, 1}}, {2, 2}, 2));
      },
      {"2 axes", "1;"});
}

TEST(FbpinnMlp, WrongOnes_AreRefusedAndWeightsAreThoseOfTheSeed) {
  expect_error([] { Mlp{.hidden = {}}.require_valid(); }, ErrorKind::invalid_argument,
               {"0 hidden layers"});
  expect_error([] { Mlp{.hidden = {0}}.require_valid(); }, ErrorKind::invalid_argument,
               {"layer of 0 units"});
  const Mlp mlp{.hidden = {5, 3}};
  EXPECT_EQ(mlp.weights(2), 5 * 3 + 3 * 6);
  const std::vector<double> few = mlp.random_weights(2, 2, 7);
  const std::vector<double> many = mlp.random_weights(2, 4, 7);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_NE(few, mlp.random_weights(2, 2, 8));
  EXPECT_LE(*std::max_element(many.begin(), many.end()), std::sqrt(0.5));
}

void expect_pairs_of_brute_force(const Boxes& boxes, const std::vector<double>& points) {
  const int axes = boxes.axes();
  const auto count = static_cast<std::int64_t>(points.size()) / axes;
  const Pairs pairs = find_pairs(boxes, points.data(), count);
  std::int64_t pair = 0;
  std::vector<std::vector<std::int32_t>> of_points(static_cast<std::size_t>(count));
  for (std::int64_t box = 0; box < boxes.count(); ++box) {
    ASSERT_EQ(pairs.box_begin[static_cast<std::size_t>(box)], pair);
    for (std::int64_t p = 0; p < count; ++p) {
      bool is_inside = true;
      for (int axis = 0; axis < axes; ++axis) {
        is_inside = is_inside && std::abs(points[static_cast<std::size_t>(p * axes + axis)] -
                                          boxes.center(box)[axis]) < boxes.half_width(box)[axis];
      }
      if (is_inside) {
        ASSERT_LT(pair, pairs.count());
        ASSERT_EQ(pairs.point[static_cast<std::size_t>(pair)], p);
        ASSERT_EQ(pairs.box[static_cast<std::size_t>(pair)], box);
        of_points[static_cast<std::size_t>(p)].push_back(static_cast<std::int32_t>(pair++));
      }
    }
  }
  ASSERT_EQ(pair, pairs.count());
  for (std::int64_t p = 0; p < count; ++p) {
    const auto found = pairs.pairs_of(p);
    ASSERT_TRUE(std::equal(found.begin(), found.end(),
                           of_points[static_cast<std::size_t>(p)].begin(),
                           of_points[static_cast<std::size_t>(p)].end()));
  }
}

TEST(FbpinnPairs, IrregularBoxes_AreThoseOfBruteForce) {
  for (int axes = 1; axes <= 4; ++axes) {
    for (const std::int64_t count : {1, 7, 75}) {
      expect_pairs_of_brute_force(random_boxes(axes, count, 10 * count + axes),
                                  random_points(axes, 500, 5));
    }
  }
}

TEST(FbpinnPairs, RegularBoxesAndLevels_AreThoseOfBruteForce) {
  Boxes boxes = Boxes::regular({{-1, 1}, {-1, 1}}, {15, 5}, 2.9);
  boxes.add_level(Boxes::regular({{-1, 1}, {-1, 1}}, {1, 1}, 2.9));
  expect_pairs_of_brute_force(boxes, grid({{-1, 1}, {-1, 1}}, {36, 18}));
}

TEST(FbpinnPairs, UncoveredPoints_AreNamed) {
  const Boxes boxes = Boxes::from_arrays(1, {0.0, 3.0}, {1.0, 1.0});
  const std::vector<double> outside{0.0, 0.5, 1.5, 3.0};
  expect_error([&] { find_pairs(boxes, outside.data(), 4, 100); }, ErrorKind::invalid_argument,
               {"point 102 at (1.5)", "outside of every box"});
  const std::vector<double> edge{0.0, 0.99999};
  expect_error([&] { find_pairs(boxes, edge.data(), 2); }, ErrorKind::invalid_argument,
               {"point 1", "edge of every box"});
  const std::vector<double> nan{0.0, std::numeric_limits<double>::quiet_NaN()};
  expect_error([&] { find_pairs(boxes, nan.data(), 2); }, ErrorKind::invalid_argument,
               {"point 1", "not finite"});
  Boxes levels = Boxes::from_arrays(1, {0.0}, {9.0});
  levels.add_level(Boxes::from_arrays(1, {0.0}, {1.0}));
  const std::vector<double> far{5.0};
  expect_error([&] { find_pairs(levels, far.data(), 1); }, ErrorKind::invalid_argument,
               {"box of level 1"});
}

template <class S>
S window(const std::vector<S>& x, const double* center, const double* half_width) {
  S product(1.0);
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    const S root =
        (1 + fbpinn::cos((x[axis] - center[axis]) * (std::numbers::pi / half_width[axis]))) / 2.0;
    product = product * root * root;
  }
  return product;
}

TEST(FbpinnWindows, Jets_AreThoseOfNestedDuals) {
  const double center[] = {0.1, -0.2, 0.3};
  const double half_width[] = {1.1, 0.8, 0.6};
  const std::vector<double> x{0.6, 0.2, -0.1};
  const JetSet set = JetSet::full(3, 4);
  std::vector<double> jet(static_cast<std::size_t>(set.size()));
  window_jet(set, x.data(), center, half_width, jet.data());
  for (int d = 0; d < set.size(); ++d) {
    const double expected = nested_derivative(
        [&](const auto& at) { return window(at, center, half_width); }, x, set[d]);
    EXPECT_NEAR(jet[static_cast<std::size_t>(d)], expected, 1e-12 * (10 + std::abs(expected)));
  }
  // And those of 1 / (2 + window).
  jet[0] += 2;
  invert_jet(set, jet.data());
  for (int d = 0; d < set.size(); ++d) {
    const double expected = nested_derivative(
        [&](const auto& at) { return 1 / (2 + window(at, center, half_width)); }, x, set[d]);
    EXPECT_NEAR(jet[static_cast<std::size_t>(d)], expected, 1e-12 * (10 + std::abs(expected)));
  }
}

template <class T>
void expect_sum_of_one(const Boxes& boxes, const std::vector<double>& points) {
  const int axes = boxes.axes();
  const JetSet set = JetSet::full(axes, 2);
  const auto count = static_cast<std::int64_t>(points.size()) / axes;
  const Pairs pairs = find_pairs(boxes, points.data(), count);
  const std::vector<T> typed(points.begin(), points.end());
  std::vector<T> inverses(static_cast<std::size_t>(count * set.size() * boxes.levels()));
  inverse_window_sums(boxes, set, pairs, typed.data(), 0, count, inverses.data());
  for (std::int64_t p = 0; p < count; ++p) {
    for (int level = 0; level < boxes.levels(); ++level) {
      std::vector<T> sum(static_cast<std::size_t>(set.size()));
      T size = 0;
      for (const std::int32_t pair : pairs.pairs_of(p)) {
        const std::int64_t box = pairs.box[static_cast<std::size_t>(pair)];
        if (boxes.level(box) != level) {
          continue;
        }
        const std::vector<T> center(boxes.center(box), boxes.center(box) + axes);
        const std::vector<T> half_width(boxes.half_width(box), boxes.half_width(box) + axes);
        std::vector<T> raw(static_cast<std::size_t>(set.size()));
        window_jet(set, typed.data() + p * axes, center.data(), half_width.data(), raw.data());
        const T* const inverse = inverses.data() + (level * count + p) * set.size();
        for (const JetSet::Term& term : set.terms()) {
          const T part = static_cast<T>(term.weight) * raw[term.left] * inverse[term.right];
          sum[term.result] += part;
          size = std::max(size, std::abs(part));
        }
      }
      constexpr T eps = std::numeric_limits<T>::epsilon();
      EXPECT_NEAR(sum[0], 1, 4 * eps);
      for (int d = 1; d < set.size(); ++d) {
        EXPECT_NEAR(sum[static_cast<std::size_t>(d)], 0, 64 * eps * size);
      }
    }
  }
}

TEST(FbpinnWindows, DividedByTheirSum_AddUpToOneAndTheirDerivativesToZero) {
  Boxes regular = Boxes::regular({{-1, 1}, {-1, 1}}, {15, 5}, 2.9);
  regular.add_level(Boxes::regular({{-1, 1}, {-1, 1}}, {2, 2}, 1.9));
  expect_sum_of_one<double>(regular, grid({{-1, 1}, {-1, 1}}, {37, 19}));
  expect_sum_of_one<float>(regular, grid({{-1, 1}, {-1, 1}}, {37, 19}));
  for (int axes = 1; axes <= 4; ++axes) {
    expect_sum_of_one<double>(random_boxes(axes, 30, 3), random_points(axes, 200, 4));
  }
}

}  // namespace
}  // namespace shardsolve::fbpinn
