// The blocks that solves for one right-hand side on GPUs go through.

#include "dense/shared/persistent_solve.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

namespace shardsolve::dense {
namespace {

using ::testing::ElementsAre;

std::vector<std::int32_t> sizes_of(const std::vector<runtime::SolveBlock>& blocks) {
  std::vector<std::int32_t> sizes;
  for (const runtime::SolveBlock& block : blocks) {
    sizes.push_back(block.size);
  }
  return sizes;
}

TEST(SolveLists, SmallStepsOfOneRank_AreBlocksTogether) {
  for (const Factors what : {Factors::l_and_adjoint, Factors::l_and_u}) {
    const SolveLists lists = solve_lists(SlabLayout::even(200, 1, 8), what, 0, 64);
    EXPECT_THAT(sizes_of(lists.all), ElementsAre(64, 64, 64, 8));
    EXPECT_THAT(sizes_of(lists.own), ElementsAre(64, 64, 64, 8));
    EXPECT_EQ(lists.all[3].row, 192);
    EXPECT_EQ(lists.all[3].column, 192);
  }
}

TEST(SolveLists, LongSteps_AreCut) {
  const SlabLayout layout = SlabLayout::even(400, 2, 100);
  const SolveLists lists = solve_lists(layout, Factors::l_and_u, 1, 64);
  EXPECT_THAT(sizes_of(lists.all), ElementsAre(64, 36, 64, 36, 64, 36, 64, 36));
  EXPECT_THAT(sizes_of(lists.own), ElementsAre(64, 36, 64, 36));
}

TEST(SolveLists, OfEveryCut_HaveEachRowOnceInTurn) {
  for (const std::int64_t ranks : {1, 2, 3, 5}) {
    for (const std::int64_t tile : {1, 8, 64, 100}) {
      const SlabLayout layout = SlabLayout::even(300, ranks, tile);
      std::int64_t rows = 0;
      std::vector<std::int32_t> before(static_cast<std::size_t>(ranks), 0);
      std::vector<std::int64_t> columns(static_cast<std::size_t>(ranks), 0);
      const SolveLists lists = solve_lists(layout, Factors::l_and_u, 0, 64);
      for (const runtime::SolveBlock& block : lists.all) {
        EXPECT_EQ(block.row, rows);
        EXPECT_EQ(block.number, &block - lists.all.data());
        const auto owner = static_cast<std::size_t>(block.owner);
        if (owner == 0) {
          EXPECT_EQ(block.before, before[0]++);
          EXPECT_EQ(lists.own[static_cast<std::size_t>(block.before)].row, block.row);
        }
        columns[owner] += block.size;
        rows += block.size;
      }
      EXPECT_EQ(rows, layout.size());
      EXPECT_EQ(before[0], std::ssize(lists.own));
      for (std::int64_t r = 0; r < ranks; ++r) {
        EXPECT_EQ(columns[static_cast<std::size_t>(r)], layout.width(r));
      }
    }
  }
}

TEST(SolveLists, Turned_BeginWithTheLast) {
  const SolveLists back = turned(solve_lists(SlabLayout::even(200, 1, 8), Factors::l_and_u, 0, 64));
  EXPECT_THAT(sizes_of(back.all), ElementsAre(8, 64, 64, 64));
  EXPECT_EQ(back.all[0].row, 199);
  EXPECT_EQ(back.all[0].number, 0);
  EXPECT_EQ(back.own[3].before, 3);
}

}  // namespace
}  // namespace shardsolve::dense
