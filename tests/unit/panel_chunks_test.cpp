#include "layout/panel_chunks.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace shardsolve::layout {
namespace {

std::vector<SlabLayout> layouts() {
  return {SlabLayout::even(40, 1, 4),         SlabLayout::even(41, 3, 4),
          SlabLayout::even(64, 4, 5),         SlabLayout::even(5, 8, 2),
          SlabLayout({0, 30, 30, 37, 60}, 4), SlabLayout::even(1, 2, 4)};
}

TEST(PanelChunks, AnyStep_CoversTheRemainingRowsOnceWhereTheyArePacked) {
  for (const SlabLayout& layout : layouts()) {
    for (const std::int64_t length : {0, 1, 7, 16, 1000}) {
      for (Step step(0); step.value() < layout.steps(); ++step) {
        std::set<std::int64_t> rows;
        std::set<std::int64_t> places;
        const std::vector<RowChunk> chunks = panel_chunks(layout, step, length);
        EXPECT_LE(std::ssize(chunks), max_panel_chunks(layout, length));
        for (const RowChunk& chunk : chunks) {
          ASSERT_FALSE(chunk.rows.empty());
          for (std::int64_t i = 0; i < chunk.rows.size(); ++i) {
            const GlobalIndex row = chunk.rows.begin + i;
            EXPECT_GE(layout.position(row).value(), layout.eliminated(step + 1));
            EXPECT_TRUE(rows.insert(row.value()).second);
            EXPECT_TRUE(places.insert(chunk.packed + i).second);
            const RowRun run =
                layout.rows_from(step + 1)[static_cast<std::size_t>(layout.owner(row))];
            EXPECT_EQ(run.packed + (row - run.rows.begin), chunk.packed + i);
          }
        }
        EXPECT_EQ(std::ssize(rows), layout.size() - layout.eliminated(step + 1));
      }
    }
  }
}

TEST(PanelChunks, FirstChunkOfSeveralRanks_IsTheNextDiagonalTile) {
  for (const SlabLayout& layout : layouts()) {
    for (Step step(0); layout.ranks() > 1 && step.value() + 1 < layout.steps(); ++step) {
      EXPECT_EQ(panel_chunks(layout, step, 8).front().rows, layout.rows(step + 1));
    }
  }
}

TEST(PanelChunks, SecondChunk_HoldsTheTileOfTheStepAfterNext) {
  const SlabLayout layout = SlabLayout::even(96, 3, 4);
  for (Step step(0); step.value() + 2 < layout.steps(); ++step) {
    const GlobalRange second = panel_chunks(layout, step, 8)[1].rows;
    const GlobalRange tile = layout.rows(step + 2);
    EXPECT_LE(second.begin, tile.begin) << step.value();
    EXPECT_GE(second.end, tile.end) << step.value();
  }
}

TEST(PanelChunks, OneRank_HasTheTileApartOnlyWhereOneChunkIsLeft) {
  const SlabLayout layout = SlabLayout::even(40, 1, 4);
  for (Step step(0); step.value() + 1 < layout.steps(); ++step) {
    const std::int64_t rows = layout.size() - layout.eliminated(step + 1);
    const std::vector<RowChunk> chunks = panel_chunks(layout, step, 20);
    const GlobalRange tile = layout.rows(step + 1);
    const GlobalRange half{tile.begin, GlobalIndex(20)};
    EXPECT_EQ(chunks.front().rows, rows > 20 ? half : tile);
    EXPECT_EQ(std::ssize(chunks), rows == 4 ? 1 : 2);
  }
}

TEST(PanelChunks, ChunksOfTheNextStep_LieInsideOneOfThisStep) {
  for (const SlabLayout& layout : layouts()) {
    for (Step step(1); step.value() < layout.steps(); ++step) {
      const std::vector<RowChunk> before = panel_chunks(layout, step - 1, 8);
      for (const RowChunk& chunk : panel_chunks(layout, step, 8)) {
        std::int64_t holders = 0;
        for (const RowChunk& holder : before) {
          holders += holder.rows.begin <= chunk.rows.begin && chunk.rows.end <= holder.rows.end;
        }
        EXPECT_EQ(holders, 1);
      }
    }
  }
}

TEST(SegmentChunks, AnyStep_CoversTheRemainingRowsOnceBetweenTheSameCuts) {
  for (const SlabLayout& layout : layouts()) {
    for (const std::int64_t length : {0, 1, 7, 16, 1000}) {
      const std::vector<RowChunk> all = segment_chunks(layout, Step(0), length);
      for (Step step(0); step.value() < layout.steps(); ++step) {
        const std::vector<RowChunk> chunks = segment_chunks(layout, step, length);
        ASSERT_EQ(chunks.size(), all.size());
        std::int64_t rows = 0;
        for (std::size_t i = 0; i < chunks.size(); ++i) {
          const RowChunk& chunk = chunks[i];
          rows += chunk.rows.size();
          if (chunk.rows.empty()) {
            continue;
          }
          // what remains of a chunk is its end
          EXPECT_GE(chunk.rows.begin, all[i].rows.begin);
          EXPECT_EQ(chunk.rows.end, all[i].rows.end);
          const std::int64_t segment = layout.owner(chunk.rows.begin);
          EXPECT_EQ(layout.owner(chunk.rows.end + -1), segment);
          const RowRun run = layout.rows_from(step)[static_cast<std::size_t>(segment)];
          EXPECT_GE(chunk.rows.begin, run.rows.begin);
          EXPECT_EQ(chunk.packed, run.packed + (chunk.rows.begin - run.rows.begin));
        }
        EXPECT_EQ(rows, layout.size() - layout.eliminated(step));
      }
    }
  }
}

}  // namespace
}  // namespace shardsolve::layout
