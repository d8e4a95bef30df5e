// The tasks of a chase: what they touch, and that the order in which they run is free where it is
// said to be.

#include "runtime/chase.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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

/// Groups of sweeps on several queues: a group may go through the waves before w while the group
/// before it, which has, goes on.
TEST_P(ChaseTasks, OfLaterSweepsInEarlierWaves_ShareNoColumnWithThem) {
  const std::vector<ChaseTask> all = tasks(chase_);
  for (std::int64_t later = 1; later < chase_.sweeps(); ++later) {
    for (std::int64_t wave = 1; wave < 3 * chase_.size; ++wave) {
      std::int64_t end = 0;              // of the columns of the later sweeps
      std::int64_t begin = chase_.size;  // of those of the sweeps before
      for (const ChaseTask& task : all) {
        if (task.sweep >= later && task.wave() < wave) {
          end = std::max(end, task.row + task.rows);
        } else if (task.sweep < later && task.wave() >= wave) {
          begin = std::min(begin, task.column);
        }
      }
      EXPECT_LE(std::min(end, chase_.size), begin);
    }
  }
}

TEST_P(ChaseTasks, OfAGroup_AreThoseOfItsWaves) {
  for (std::int64_t first = 0; first < chase_.sweeps(); first += 3) {
    const SweepGroup group{first, std::min<std::int64_t>(3, chase_.sweeps() - first)};
    const WaveRange all = group.waves(chase_);
    std::int64_t count = 0;
    for (const ChaseTask& task : tasks(chase_)) {
      if (task.sweep >= first && task.sweep < first + group.count) {
        EXPECT_GE(task.wave(), all.begin);
        EXPECT_LT(task.wave(), all.end);
        const auto [begin, end] =
            SweepGroup::numbers(chase_, task.sweep, {task.wave(), task.wave() + 1});
        EXPECT_EQ(begin, task.number);
        EXPECT_EQ(end, task.number + 1);
        ++count;
      }
    }
    EXPECT_EQ(group.tasks(chase_, all), count);
    std::int64_t in_pieces = 0;
    for (std::int64_t wave = all.begin; wave < all.end; wave += 4) {
      in_pieces += group.tasks(chase_, {wave, wave + 4});
    }
    EXPECT_EQ(in_pieces, count);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ChaseTasks,
                         ::testing::Combine(::testing::Values(0, 1, 2, 3, 7, 16, 33),
                                            ::testing::Values(1, 2, 3, 5, 8), ::testing::Bool()));

}  // namespace
}  // namespace shardsolve::runtime
