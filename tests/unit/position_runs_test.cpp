#include "layout/position_runs.hpp"

#include "tests/support/cuts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shardsolve::layout {
namespace {

TEST(PositionRuns, OfEveryPosition_AreTheRowsAtOrAfterIt) {
  for (const testing::Cut& cut : testing::cuts()) {
    SCOPED_TRACE(cut.name);
    const SlabLayout& layout = cut.layout;
    for (std::int64_t first = 0; first <= layout.size(); ++first) {
      std::vector<std::int64_t> rows;
      const std::vector<RowRun> runs = rows_from(layout, Position(first));
      ASSERT_EQ(static_cast<std::int64_t>(runs.size()), layout.ranks());
      for (const RowRun& run : runs) {
        EXPECT_EQ(run.packed, static_cast<std::int64_t>(rows.size()));
        for (GlobalIndex row = run.rows.begin; row < run.rows.end; ++row) {
          EXPECT_EQ(layout.owner(row), run.rank);
          EXPECT_GE(layout.position(row).value(), first);
          rows.push_back(row.value());
        }
      }
      EXPECT_EQ(static_cast<std::int64_t>(rows.size()), layout.size() - first);
    }
  }
}

TEST(PositionRuns, OfASteps_AreTheLayouts) {
  const SlabLayout layout({0, 30, 60, 90, 90}, 8);
  for (Step step(0); step.value() <= layout.steps(); ++step) {
    EXPECT_EQ(rows_from(layout, Position(layout.eliminated(step))), layout.rows_from(step));
  }
}

TEST(PanelOrder, HasTheLeadingRowsInOrderOfPosition_AndEachRowOnce) {
  for (const testing::Cut& cut : testing::cuts()) {
    SCOPED_TRACE(cut.name);
    const SlabLayout& layout = cut.layout;
    for (std::int64_t first = 0; first <= layout.size(); first += 3) {
      const std::int64_t leading = std::min(layout.tile(), layout.size() - first);
      const std::vector<RowRun> packed = rows_from(layout, Position(first));
      std::vector<bool> seen(static_cast<std::size_t>(layout.size()));
      std::int64_t place = 0;
      for (const PanelRun& run : panel_order(layout, Position(first), leading)) {
        EXPECT_EQ(run.place, place);
        for (GlobalIndex row = run.rows.begin; row < run.rows.end; ++row) {
          const RowRun& home = packed[static_cast<std::size_t>(layout.owner(row))];
          EXPECT_EQ(run.packed + (row - run.rows.begin), home.packed + (row - home.rows.begin));
          if (place < leading) {
            EXPECT_EQ(layout.position(row).value(), first + place);
          }
          EXPECT_FALSE(seen[static_cast<std::size_t>(row.value())]);
          seen[static_cast<std::size_t>(row.value())] = true;
          ++place;
        }
      }
      EXPECT_EQ(place, layout.size() - first);
    }
  }
}

}  // namespace
}  // namespace shardsolve::layout
