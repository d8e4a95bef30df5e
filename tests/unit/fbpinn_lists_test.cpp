// Lists the other way round, and what else is made by several threads: the same numbers as by one.

#include "fbpinn/block_system.hpp"
#include "fbpinn/lists.hpp"
#include "fbpinn/pairs.hpp"
#include "fbpinn/points_between.hpp"
#include "fbpinn/training_geometry.hpp"
#include "fbpinn/training_vectors.hpp"
#include "fbpinn/windows.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/fbpinn.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace shardsolve::fbpinn {
namespace {

/// Every piece at the same time, by a thread of its own.
void by_threads(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < count; ++i) {
    threads.emplace_back(work, i);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

void backwards(std::int64_t count, const std::function<void(std::int64_t)>& work) {
  for (std::int64_t i = count - 1; i >= 0; --i) {
    work(i);
  }
}

const std::vector<sparse::ForEach> ways{sparse::one_by_one, backwards, by_threads};

std::vector<std::int32_t> different_numbers(std::size_t count, std::int32_t below,
                                            std::mt19937& generator) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(below));
  for (std::int32_t i = 0; i < below; ++i) {
    all[static_cast<std::size_t>(i)] = i;
  }
  std::shuffle(all.begin(), all.end(), generator);
  all.resize(count);
  return all;
}

TEST(FbpinnLists, InverseIsByValueAndThenPlace) {
  std::mt19937 generator(5);
  for (const std::int32_t values : {1, 40, 9000}) {
    std::vector<std::int64_t> begin{0};
    std::vector<std::int32_t> lists;
    for (const std::int32_t length : {0, values, values / 3, 1, values / 2, 0}) {
      std::vector<std::int32_t> list =
          different_numbers(static_cast<std::size_t>(length), values, generator);
      std::sort(list.begin(), list.end());
      lists.insert(lists.end(), list.begin(), list.end());
      begin.push_back(static_cast<std::int64_t>(lists.size()));
    }
    std::vector<std::vector<std::int32_t>> expected(static_cast<std::size_t>(values) + 2);
    for (std::size_t place = 0; place < lists.size(); ++place) {
      expected[static_cast<std::size_t>(lists[place])].push_back(static_cast<std::int32_t>(place));
    }
    for (const sparse::ForEach& each : ways) {
      // Two more values than there are.
      const InverseLists inverse = inverse_of(begin, lists, values + 2, each);
      ASSERT_EQ(inverse.begin.size(), expected.size() + 1);
      ASSERT_EQ(inverse.place.size(), lists.size());
      for (std::size_t value = 0; value < expected.size(); ++value) {
        const std::vector<std::int32_t> found(inverse.place.begin() + inverse.begin[value],
                                              inverse.place.begin() + inverse.begin[value + 1]);
        ASSERT_EQ(found, expected[value]) << value;
      }
    }
  }
}

TEST(FbpinnLists, SorterSortsFewAndManyOfThoseBetween) {
  std::mt19937 generator(6);
  AscendingSorter sorter;
  for (const std::int32_t below : {1, 64, 65, 100000, 3000}) {
    for (const std::size_t count : {0, 1, 3, 1000}) {
      std::vector<std::int32_t> numbers =
          different_numbers(std::min(count, static_cast<std::size_t>(below)), below, generator);
      std::vector<std::int32_t> expected = numbers;
      std::sort(expected.begin(), expected.end());
      sorter.sort(numbers);
      EXPECT_EQ(numbers, expected) << below << " " << count;
    }
  }
}

TEST(FbpinnLists, FirstIsTheLeast) {
  for (const sparse::ForEach& each : ways) {
    const auto first_of = [&](std::int64_t count, const std::vector<std::int64_t>& bad) {
      return find_first(count, each, [&](std::int64_t i) {
        return std::find(bad.begin(), bad.end(), i) != bad.end();
      });
    };
    EXPECT_EQ(first_of(0, {}), -1);
    EXPECT_EQ(first_of(5000, {}), -1);
    EXPECT_EQ(first_of(5000, {4999}), 4999);
    EXPECT_EQ(first_of(5000, {4000, 1024, 1023}), 1023);
  }
}

Boxes three_levels() {
  Boxes boxes = Boxes::regular({{0, 1}, {0, 1}}, {12, 9}, 4.3);
  boxes.add_level(Boxes::regular({{0, 1}, {0, 1}}, {5, 7}, 2.9));
  boxes.add_level(Boxes::regular({{0, 1}, {0, 1}}, {1, 1}, 2.9));
  return boxes;
}

std::vector<double> points_inside(std::size_t count) {
  std::mt19937 generator(7);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::vector<double> points(2 * count);
  std::generate(points.begin(), points.end(), [&] { return uniform(generator); });
  return points;
}

TEST(FbpinnLists, PairsAreThoseOfOneThread) {
  const Boxes boxes = three_levels();
  const std::vector<double> points = points_inside(3000);
  const Pairs expected = find_pairs(boxes, points.data(), 3000);
  for (const sparse::ForEach& each : ways) {
    const Pairs pairs = find_pairs(boxes, points.data(), 3000, 0, each);
    EXPECT_EQ(pairs.box_begin, expected.box_begin);
    EXPECT_EQ(pairs.point, expected.point);
    EXPECT_EQ(pairs.point_begin, expected.point_begin);
    EXPECT_EQ(pairs.by_point, expected.by_point);
    EXPECT_EQ(pairs.box, expected.box);
  }
}

TEST(FbpinnLists, OfSeveralBadPointsTheFirstIsNamed) {
  const Boxes boxes = three_levels();
  const auto refusal = [&](double bad, const sparse::ForEach& each) {
    std::vector<double> points = points_inside(3000);
    for (const std::size_t p : {2900, 1234, 2048}) {
      points[2 * p + 1] = bad;
    }
    try {
      find_pairs(boxes, points.data(), 3000, 100, each);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const sparse::ForEach& each : ways) {
    EXPECT_NE(refusal(std::numeric_limits<double>::quiet_NaN(), each).find("point 1334 at"),
              std::string::npos);
    EXPECT_NE(refusal(77.0, each).find("point 1334 at"), std::string::npos);
  }
}

/// Boxes in rows have windows along an axis in common, which are not computed for each anew.
TEST(FbpinnLists, SumsOfWindowsAreThoseOfEachBoxByItself) {
  const Boxes boxes = three_levels();
  const JetSet set = JetSet::full(2, 4);
  const std::vector<double> points = points_inside(500);
  const Pairs pairs = find_pairs(boxes, points.data(), 500);
  const auto size = static_cast<std::size_t>(set.size());
  std::vector<double> found(3 * 500 * size);
  inverse_window_sums(boxes, set, pairs, points.data(), 0, 500, found.data());
  std::vector<double> expected(found.size());
  std::vector<double> jet(size);
  for (std::int64_t p = 0; p < 500; ++p) {
    for (const std::int32_t pair : pairs.pairs_of(p)) {
      const std::int64_t box = pairs.box[static_cast<std::size_t>(pair)];
      window_jet(set, points.data() + 2 * p, boxes.center(box), boxes.half_width(box), jet.data());
      for (std::size_t d = 0; d < size; ++d) {
        expected[static_cast<std::size_t>(boxes.level(box) * 500 + p) * size + d] += jet[d];
      }
    }
  }
  for (std::size_t at = 0; at < expected.size(); at += size) {
    invert_jet(set, expected.data() + at);
  }
  EXPECT_EQ(found, expected);
}

TEST(FbpinnLists, NumbersThatLookRandomAreThoseOfOneSequence) {
  for (const std::int64_t count : {0, 1, 63, 1000}) {
    std::vector<double> expected;
    std::uint64_t state = 0x853c49e6748fea9bU;
    for (std::int64_t i = 0; i < count; ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      expected.push_back(static_cast<double>(state >> 11U) * 0x1p-52 - 1.0);
    }
    for (const sparse::ForEach& each : ways) {
      const Numbers<double> found = training::other_jets(count, each);
      EXPECT_EQ(std::vector<double>(found.begin(), found.end()), expected) << count;
    }
  }
}

/// A grid, one with a box in the way that leaves strips, and points on no lattice.
TEST(FbpinnLists, PointsBetweenAreThoseOfOneThread) {
  const std::vector<Interval> square{{0, 1}, {0, 1}};
  for (const double overlap : {1.02, 2.9}) {
    const Boxes boxes = Boxes::regular(square, {5, 4}, overlap);
    for (const std::vector<double>& points :
         {grid(square, {70, 68}), grid(square, {20, 23}), points_inside(900)}) {
      std::vector<double> covered;
      for (std::size_t p = 0; p < points.size(); p += 2) {
        try {
          find_pairs(boxes, points.data() + p, 1);
          covered.insert(covered.end(), {points[p], points[p + 1]});
        } catch (const Error&) {
          // At the very edge of boxes that hardly overlap.
        }
      }
      const auto count = static_cast<std::int64_t>(covered.size()) / 2;
      const Pairs pairs = find_pairs(boxes, covered.data(), count);
      const TermPoints term{covered.data(), 0, count};
      const PointsBetween expected = points_between(boxes, pairs, term, 700);
      EXPECT_GT(expected.points.size(), 400U);
      for (const sparse::ForEach& each : ways) {
        const PointsBetween found = points_between(boxes, pairs, term, 700, each);
        EXPECT_EQ(found.points, expected.points);
        EXPECT_EQ(found.in_strips, expected.in_strips);
      }
    }
  }
}

TEST(FbpinnLists, NeighboursInTheGraphAreBoxesThatShareARow) {
  const Boxes boxes = three_levels();
  // Points in rows, most of which are in the boxes of the one before, and others.
  std::vector<double> points = grid({{0, 1}, {0, 1}}, {40, 37});
  const std::vector<double> more = points_inside(300);
  points.insert(points.end(), more.begin(), more.end());
  const TrainingGeometry geometry(boxes, JetSet(2), 1, points, {{40 * 37, 2}, {300, 1}},
                                  sparse::Workers{});
  std::vector<std::set<std::int32_t>> expected(static_cast<std::size_t>(boxes.count()));
  const Pairs& pairs = geometry.at.pairs;
  for (std::int64_t p = 0; p < pairs.points; ++p) {
    for (const std::int32_t one : pairs.pairs_of(p)) {
      for (const std::int32_t other : pairs.pairs_of(p)) {
        if (one != other) {
          expected[static_cast<std::size_t>(pairs.box[static_cast<std::size_t>(one)])].insert(
              pairs.box[static_cast<std::size_t>(other)]);
        }
      }
    }
  }
  const std::vector<std::int64_t> sizes(expected.size(), 3);
  for (const sparse::ForEach& each : ways) {
    const sparse::BlockGraph graph = graph_of(boxes, geometry.lists, sizes, each);
    for (std::int32_t box = 0; box < boxes.count(); ++box) {
      const auto found = graph.neighbours_of(box);
      EXPECT_TRUE(std::ranges::equal(found, expected[static_cast<std::size_t>(box)])) << box;
    }
  }
}

}  // namespace
}  // namespace shardsolve::fbpinn
