// The staircases as pure data: which entries of a slab an update of a triangle touches.

#include "layout/staircase.hpp"

#include "tests/support/fuzz.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <ostream>
#include <vector>

namespace shardsolve::layout {

/// For GoogleTest's messages.
void PrintTo(const Piece& piece, std::ostream* out) {  // NOLINT(readability-identifier-naming)
  *out << "{segment " << piece.segment << ", rows [" << piece.rows.begin.value() << ", "
       << piece.rows.end.value() << "), columns [" << piece.columns.begin.value() << ", "
       << piece.columns.end.value() << ")" << (piece.diagonal ? ", diagonal}" : "}");
}

namespace {

using ::testing::UnorderedElementsAreArray;

enum class Half : std::uint8_t { lower, upper };

std::vector<Piece> staircase(Half half, const SlabLayout& layout, std::int64_t rank,
                             std::int64_t first, std::int64_t last) {
  return half == Half::lower ? lower_staircase(layout, rank, first, last)
                             : upper_staircase(layout, rank, first, last);
}

Piece piece(std::int64_t segment, std::int64_t row, std::int64_t row_end, std::int64_t column,
            std::int64_t column_end, bool diagonal = false) {
  return {segment,
          {GlobalIndex(row), GlobalIndex(row_end)},
          {LocalIndex(column), LocalIndex(column_end)},
          diagonal};
}

// ---- tables, written by hand -------------------------------------------------------------------

// Two ranks of four columns in tiles of two. Elimination order of the rows: 0 1 | 4 5 | 2 3 | 6 7.
TEST(Staircase, TwoRanksOfTwoBlocks_AreThoseOfTheTable) {
  const SlabLayout layout = SlabLayout::even(8, 2, 2);
  EXPECT_THAT(lower_staircase(layout, 0, 0, 2),
              UnorderedElementsAreArray({piece(0, 0, 2, 0, 2, true), piece(0, 2, 4, 0, 2),
                                         piece(1, 4, 6, 0, 2), piece(1, 6, 8, 0, 2),
                                         piece(0, 2, 4, 2, 4, true), piece(1, 6, 8, 2, 4)}));
  EXPECT_THAT(lower_staircase(layout, 1, 0, 2),
              UnorderedElementsAreArray({piece(1, 4, 6, 0, 2, true), piece(0, 2, 4, 0, 2),
                                         piece(1, 6, 8, 0, 2), piece(1, 6, 8, 2, 4, true)}));
  EXPECT_THAT(upper_staircase(layout, 0, 0, 2),
              UnorderedElementsAreArray({piece(0, 0, 2, 0, 2, true), piece(0, 0, 2, 2, 4),
                                         piece(1, 4, 6, 2, 4), piece(0, 2, 4, 2, 4, true)}));
  EXPECT_THAT(upper_staircase(layout, 1, 1, 2),
              UnorderedElementsAreArray(
                  {piece(0, 0, 4, 2, 4), piece(1, 4, 6, 2, 4), piece(1, 6, 8, 2, 4, true)}));
}

// Slabs of 3, 0 and 2 columns in tiles of two. Order of the rows: 0 1 | 3 4 | 2.
TEST(Staircase, UnevenSlabs_AreThoseOfTheTable) {
  const SlabLayout layout({0, 3, 3, 5}, 2);
  EXPECT_THAT(lower_staircase(layout, 0, 1, 2),
              UnorderedElementsAreArray({piece(0, 2, 3, 2, 3, true)}));
  EXPECT_THAT(lower_staircase(layout, 2, 0, 1),
              UnorderedElementsAreArray({piece(2, 3, 5, 0, 2, true), piece(0, 2, 3, 0, 2)}));
  EXPECT_THAT(upper_staircase(layout, 0, 1, 2),
              UnorderedElementsAreArray(
                  {piece(0, 0, 2, 2, 3), piece(2, 3, 5, 2, 3), piece(0, 2, 3, 2, 3, true)}));
  EXPECT_THAT(upper_staircase(layout, 1, 0, 0), ::testing::IsEmpty());
}

// ---- against the definition
// ----------------------------------------------------------------------

/// How often each entry of a slab is touched: row + n * column.
std::vector<int> touches(const SlabLayout& layout, const std::vector<Piece>& pieces,
                         std::int64_t rank) {
  std::vector<int> count(static_cast<std::size_t>(layout.size() * layout.width(rank)), 0);
  for (const Piece& one : pieces) {
    EXPECT_FALSE(one.rows.empty() || one.columns.empty()) << "an empty piece";
    EXPECT_GE(one.rows.begin, layout.segment(one.segment).begin);
    EXPECT_LE(one.rows.end, layout.segment(one.segment).end);
    for (GlobalIndex row = one.rows.begin; row < one.rows.end; ++row) {
      for (LocalIndex column = one.columns.begin; column < one.columns.end; ++column) {
        count.at(static_cast<std::size_t>(row.value() + layout.size() * column.value())) += 1;
      }
    }
  }
  return count;
}

/// Step of a row or column.
std::int64_t step_of(const SlabLayout& layout, GlobalIndex row) {
  std::int64_t step = 0;
  while (layout.eliminated(Step(step + 1)) <= layout.position(row).value()) {
    ++step;
  }
  return step;
}

/// Entries of the blocks are touched once if their step says so, all others never.
void expect_half(Half half, const SlabLayout& layout, std::int64_t rank, std::int64_t first,
                 std::int64_t last) {
  const std::vector<Piece> pieces = staircase(half, layout, rank, first, last);
  const std::vector<int> count = touches(layout, pieces, rank);
  for (std::int64_t j = 0; j < layout.width(rank); ++j) {
    const std::int64_t block = j / layout.tile();
    const std::int64_t step = step_of(layout, layout.global(rank, LocalIndex(j)));
    for (std::int64_t i = 0; i < layout.size(); ++i) {
      const std::int64_t row_step = step_of(layout, GlobalIndex(i));
      const bool inside = half == Half::lower ? row_step >= step : row_step <= step;
      const int expected = block >= first && block < last && inside ? 1 : 0;
      ASSERT_EQ(count[static_cast<std::size_t>(i + layout.size() * j)], expected)
          << "row " << i << " of column " << j;
    }
  }
  for (const Piece& one : pieces) {
    if (one.diagonal) {
      EXPECT_EQ(one.segment, rank);
      EXPECT_EQ(one.rows.begin, layout.global(rank, one.columns.begin));
      EXPECT_EQ(one.rows.end, layout.global(rank, one.columns.end));
    }
  }
}

/// A diagonal tile is marked, and nothing else is: rectangles hold entries of one triangle only.
void expect_diagonals(Half half, const SlabLayout& layout, std::int64_t rank) {
  const std::int64_t blocks = (layout.width(rank) + layout.tile() - 1) / layout.tile();
  std::int64_t diagonals = 0;
  for (const Piece& one : staircase(half, layout, rank, 0, blocks)) {
    diagonals += one.diagonal ? 1 : 0;
    for (GlobalIndex row = one.rows.begin; !one.diagonal && row < one.rows.end; ++row) {
      for (LocalIndex column = one.columns.begin; column < one.columns.end; ++column) {
        const Position of_row = layout.position(row);
        const Position of_column = layout.position(layout.global(rank, column));
        ASSERT_TRUE(half == Half::lower ? of_row > of_column : of_row < of_column);
      }
    }
  }
  EXPECT_EQ(diagonals, blocks);
}

std::vector<Piece> taken_apart(const std::vector<Batch>& batches) {
  std::vector<Piece> pieces;
  for (const Batch& batch : batches) {
    for (std::int64_t i = 0; i < batch.count; ++i) {
      Piece one = batch.first;
      one.rows = {one.rows.begin + i * batch.distance, one.rows.end + i * batch.distance};
      one.columns = {one.columns.begin + i * batch.distance, one.columns.end + i * batch.distance};
      pieces.push_back(one);
    }
  }
  return pieces;
}

TEST(Staircase, FinestSquares_CutTheDiagonalTiles) {
  const SlabLayout small = SlabLayout::even(7, 1, 7);
  const auto tile = UnorderedElementsAreArray(
      {piece(0, 4, 7, 0, 4), piece(0, 2, 4, 0, 2), piece(0, 6, 7, 4, 6), piece(0, 0, 2, 0, 2, true),
       piece(0, 2, 4, 2, 4, true), piece(0, 4, 6, 4, 6, true), piece(0, 6, 7, 6, 7, true)});
  EXPECT_THAT(lower_tile(small, 0, 0, 2), tile);
  EXPECT_THAT(lower_staircase(small, 0, 0, 1, 2), tile);
  EXPECT_THAT(lower_tile(small, 0, 0, 7), UnorderedElementsAreArray({piece(0, 0, 7, 0, 7, true)}));
  // Everywhere the same entries, but for those above the diagonal of what was one square.
  testing::fuzz(100, [](testing::Random& random) {
    const std::int64_t ranks = 1 + random.below(3);
    const SlabLayout layout = SlabLayout::even(1 + random.below(60), ranks, 1 + random.below(20));
    const std::int64_t finest = 1 + random.below(9);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t blocks = (layout.width(rank) + layout.tile() - 1) / layout.tile();
      const auto whole = touches(layout, lower_staircase(layout, rank, 0, blocks), rank);
      const auto pieces = lower_staircase(layout, rank, 0, blocks, finest);
      const auto cut = touches(layout, pieces, rank);
      for (std::int64_t j = 0; j < layout.width(rank); ++j) {
        for (std::int64_t i = 0; i < layout.size(); ++i) {
          const auto at = static_cast<std::size_t>(i + layout.size() * j);
          const GlobalIndex column = layout.global(rank, LocalIndex(j));
          const bool below = layout.position(GlobalIndex(i)) >= layout.position(column);
          ASSERT_TRUE(below ? cut[at] == whole[at] : cut[at] <= whole[at]);
        }
      }
      EXPECT_THAT(taken_apart(in_batches(pieces)), UnorderedElementsAreArray(pieces));
      for (const Piece& one : pieces) {
        EXPECT_TRUE(!one.diagonal || one.columns.size() <= finest);
      }
    }
  });
}

TEST(Staircase, InBatches_AreThePiecesAndFew) {
  testing::fuzz(100, [](testing::Random& random) {
    const std::int64_t ranks = 1 + random.below(4);
    const SlabLayout layout = SlabLayout::even(1 + random.below(200), ranks, 1 + random.below(9));
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t blocks = (layout.width(rank) + layout.tile() - 1) / layout.tile();
      const auto pieces = lower_staircase(layout, rank, random.below(blocks + 1), blocks);
      EXPECT_THAT(taken_apart(in_batches(pieces)), UnorderedElementsAreArray(pieces));
    }
  });
  // 64 blocks of one rank: a level of the cuts is one batch
  const SlabLayout layout = SlabLayout::even(64 * 8, 1, 8);
  EXPECT_LE(in_batches(lower_staircase(layout, 0, 0, 64)).size(), 7U);
  EXPECT_LE(in_batches(lower_staircase(layout, 0, 5, 64)).size(), 13U);
  // the segments of other ranks have tiles beside the diagonal, too: one batch more each
  const SlabLayout shared = SlabLayout::even(4 * 64 * 8, 4, 8);
  EXPECT_LE(in_batches(lower_staircase(shared, 1, 0, 64)).size(), 4U * 8U);
}

TEST(Staircase, RandomLayouts_CoverEachEntryOfTheTriangleOnce) {
  testing::fuzz(150, [](testing::Random& random) {
    std::vector<std::int64_t> boundaries{0};
    for (std::int64_t ranks = 1 + random.below(6); ranks > 0; --ranks) {
      boundaries.push_back(boundaries.back() + (random.one_in(4) ? 0 : random.below(14)));
    }
    const SlabLayout layout(boundaries, 1 + random.below(5));
    SCOPED_TRACE(::testing::PrintToString(boundaries) + " tile " + std::to_string(layout.tile()));
    for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
      const std::int64_t blocks = (layout.width(rank) + layout.tile() - 1) / layout.tile();
      const std::int64_t first = random.below(blocks + 1);
      const std::int64_t last = first + random.below(blocks - first + 1);
      for (const Half half : {Half::lower, Half::upper}) {
        expect_half(half, layout, rank, 0, blocks);
        expect_half(half, layout, rank, first, last);
        expect_diagonals(half, layout, rank);
      }
    }
  });
}

}  // namespace
}  // namespace shardsolve::layout
