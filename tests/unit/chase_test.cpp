// The tasks of a chase: what they touch, and that the order in which they run is free where it is
// said to be.

#include "runtime/chase.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace shardsolve::runtime {
namespace {

using Entry = std::pair<std::int64_t, std::int64_t>;

/// Of the lower triangle: the block beside the diagonal and the triangle on it.
std::vector<Entry> entries(const ChaseTask& task) {
  std::vector<Entry> all;
  for (std::int64_t i = task.row; i < task.row + task.rows; ++i) {
    for (std::int64_t j = task.column; j < task.column + task.columns; ++j) {
      all.emplace_back(i, j);
    }
    for (std::int64_t j = task.row; j <= i; ++j) {
      all.emplace_back(i, j);
    }
  }
  return all;
}

std::vector<ChaseTask> tasks(const Chase& chase) {
  std::vector<ChaseTask> all;
  for (std::int64_t sweep = 0; sweep < chase.sweeps(); ++sweep) {
    for (std::int64_t number = 0; number < chase.tasks(sweep); ++number) {
      all.push_back(chase.task(sweep, number));
    }
  }
  return all;
}

/// Whether an entry is touched by two of the tasks that start at the same time, if each sweep
/// starts `distance` tasks after the one before.
bool collide(const Chase& chase, std::int64_t distance) {
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> touched;
  for (const ChaseTask& task : tasks(chase)) {
    const std::int64_t time = distance * task.sweep + task.number;
    for (const auto& [i, j] : entries(task)) {
      if (!touched.emplace(time, i, j).second) {
        return true;
      }
    }
  }
  return false;
}

class ChaseTasks : public ::testing::TestWithParam<std::tuple<std::int64_t, std::int64_t, bool>> {
 protected:
  Chase chase_{std::get<0>(GetParam()), std::get<1>(GetParam()), std::get<2>(GetParam())};
};

TEST_P(ChaseTasks, OfOneWave_TouchDisjointEntries) { EXPECT_FALSE(collide(chase_, 2)); }

TEST_P(ChaseTasks, OfNeighbouringWaves_DoNot) {
  const bool has_neighbours = chase_.sweeps() > 1 && chase_.tasks(0) > 1;
  EXPECT_EQ(collide(chase_, 1), has_neighbours);
}

TEST_P(ChaseTasks, All_StayInsideTheBandAndItsBulges) {
  for (const ChaseTask& task : tasks(chase_)) {
    EXPECT_GT(task.rows, 0);
    EXPECT_LE(task.row + task.rows, chase_.size);
    EXPECT_GE(task.column, 0);
    EXPECT_EQ(task.wave(), 2 * task.sweep + task.number);
    for (const auto& [i, j] : entries(task)) {
      EXPECT_GE(i, j);
      EXPECT_LT(i - j, 2 * chase_.bandwidth);
      EXPECT_GE(j, task.sweep);
    }
  }
}

TEST_P(ChaseTasks, OfOneSweep_HaveEachRowBelowItsColumnOnce) {
  for (std::int64_t sweep = 0; sweep < chase_.sweeps(); ++sweep) {
    std::int64_t next = sweep + 1;
    for (std::int64_t number = 0; number < chase_.tasks(sweep); ++number) {
      EXPECT_EQ(chase_.task(sweep, number).row, next);
      next += chase_.task(sweep, number).rows;
    }
    EXPECT_EQ(next, chase_.size);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ChaseTasks,
                         ::testing::Combine(::testing::Values(0, 1, 2, 3, 7, 16, 33),
                                            ::testing::Values(1, 2, 3, 5, 8), ::testing::Bool()));

}  // namespace
}  // namespace shardsolve::runtime
