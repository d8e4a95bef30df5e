#include "tests/support/case_name.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/sharded.hpp>
#include <shardsolve/slab_layout.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

namespace shardsolve {

/// For GoogleTest's messages.
void PrintTo(const RowRun& run, std::ostream* out) {  // NOLINT(readability-identifier-naming)
  *out << "{rank " << run.rank << ", rows [" << run.rows.begin.value() << ", "
       << run.rows.end.value() << "), packed " << run.packed << "}";
}

namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

RowRun run(std::int64_t rank, std::int64_t begin, std::int64_t end, std::int64_t packed) {
  return {rank, {GlobalIndex(begin), GlobalIndex(end)}, packed};
}

// ---- tables, written by hand -------------------------------------------------------------------

struct StepRow {
  std::int64_t owner;
  std::int64_t local_begin, local_end;
  std::int64_t global_begin, global_end;
  std::int64_t eliminated;
};

struct Table {
  std::string name;
  SlabLayout layout;
  std::vector<std::int64_t> boundaries;
  std::vector<StepRow> steps;
  std::vector<std::int64_t> order;  // the row at each position

  friend std::ostream& operator<<(std::ostream& out, const Table& c) { return out << c.name; }
};

std::vector<Table> tables() {
  return {
      {"two_ranks",
       SlabLayout::even(8, 2, 2),
       {0, 4, 8},
       {{0, 0, 2, 0, 2, 0}, {1, 0, 2, 4, 6, 2}, {0, 2, 4, 2, 4, 4}, {1, 2, 4, 6, 8, 6}},
       {0, 1, 4, 5, 2, 3, 6, 7}},
      {"uneven_widths",
       SlabLayout::even(10, 4, 2),
       {0, 3, 6, 8, 10},
       {{0, 0, 2, 0, 2, 0},
        {1, 0, 2, 3, 5, 2},
        {2, 0, 2, 6, 8, 4},
        {3, 0, 2, 8, 10, 6},
        {0, 2, 3, 2, 3, 8},
        {1, 2, 3, 5, 6, 9}},
       {0, 1, 3, 4, 6, 7, 8, 9, 2, 5}},
      {"jax_padding",
       SlabLayout({0, 3, 6, 9, 9}, 2),
       {0, 3, 6, 9, 9},
       {{0, 0, 2, 0, 2, 0},
        {1, 0, 2, 3, 5, 2},
        {2, 0, 2, 6, 8, 4},
        {0, 2, 3, 2, 3, 6},
        {1, 2, 3, 5, 6, 7},
        {2, 2, 3, 8, 9, 8}},
       {0, 1, 3, 4, 6, 7, 2, 5, 8}},
      {"idle_ranks_in_the_middle",
       SlabLayout({0, 3, 3, 3, 8}, 2),
       {0, 3, 3, 3, 8},
       {{0, 0, 2, 0, 2, 0},
        {3, 0, 2, 3, 5, 2},
        {0, 2, 3, 2, 3, 4},
        {3, 2, 4, 5, 7, 5},
        {3, 4, 5, 7, 8, 7}},
       {0, 1, 3, 4, 2, 5, 6, 7}},
      {"idle_first_rank",
       SlabLayout({0, 0, 2}, 1),
       {0, 0, 2},
       {{1, 0, 1, 0, 1, 0}, {1, 1, 2, 1, 2, 1}},
       {0, 1}},
      {"empty_matrix", SlabLayout::even(0, 3, 2), {0, 0, 0, 0}, {}, {}},
      {"one_row", SlabLayout::even(1, 4, 2), {0, 1, 1, 1, 1}, {{0, 0, 1, 0, 1, 0}}, {0}},
      {"one_rank",
       SlabLayout::even(5, 1, 2),
       {0, 5},
       {{0, 0, 2, 0, 2, 0}, {0, 2, 4, 2, 4, 2}, {0, 4, 5, 4, 5, 4}},
       {0, 1, 2, 3, 4}},
      {"tile_above_n",
       SlabLayout::even(5, 2, 64),
       {0, 3, 5},
       {{0, 0, 3, 0, 3, 0}, {1, 0, 2, 3, 5, 3}},
       {0, 1, 2, 3, 4}},
      {"largest_tile",
       SlabLayout::even(5, 2, huge),
       {0, 3, 5},
       {{0, 0, 3, 0, 3, 0}, {1, 0, 2, 3, 5, 3}},
       {0, 1, 2, 3, 4}},
  };
}

class SlabLayoutTable : public ::testing::TestWithParam<Table> {};

TEST_P(SlabLayoutTable, Slabs_AreThoseOfTheTable) {
  const Table& table = GetParam();
  EXPECT_EQ(table.layout.boundaries(), table.boundaries);
  EXPECT_EQ(table.layout.ranks(), static_cast<std::int64_t>(table.boundaries.size()) - 1);
  EXPECT_EQ(table.layout.size(), table.boundaries.back());
}

TEST_P(SlabLayoutTable, Steps_AreThoseOfTheTable) {
  const Table& table = GetParam();
  ASSERT_EQ(table.layout.steps(), static_cast<std::int64_t>(table.steps.size()));
  Step step;
  for (const StepRow& row : table.steps) {
    SCOPED_TRACE(step.value());
    EXPECT_EQ(table.layout.owner(step), row.owner);
    EXPECT_EQ(table.layout.columns(step),
              (LocalRange{LocalIndex(row.local_begin), LocalIndex(row.local_end)}));
    EXPECT_EQ(table.layout.rows(step),
              (GlobalRange{GlobalIndex(row.global_begin), GlobalIndex(row.global_end)}));
    EXPECT_EQ(table.layout.eliminated(step), row.eliminated);
    ++step;
  }
  EXPECT_EQ(table.layout.eliminated(step), table.layout.size());
}

TEST_P(SlabLayoutTable, Order_IsThatOfTheTable) {
  const Table& table = GetParam();
  ASSERT_EQ(table.layout.size(), static_cast<std::int64_t>(table.order.size()));
  Position position;
  for (const std::int64_t row : table.order) {
    EXPECT_EQ(table.layout.row_at(position), GlobalIndex(row));
    EXPECT_EQ(table.layout.position(GlobalIndex(row)), position);
    ++position;
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, SlabLayoutTable, ::testing::ValuesIn(tables()),
                         testing::CaseName());

TEST(SlabLayout, RowsAroundAStep_AreOneRunARank) {
  struct Case {
    Step step;
    std::vector<RowRun> from;
    std::vector<RowRun> before;
  };
  const SlabLayout layout = SlabLayout::even(10, 4, 2);
  const Case cases[] = {
      {Step(0),
       {run(0, 0, 3, 0), run(1, 3, 6, 3), run(2, 6, 8, 6), run(3, 8, 10, 8)},
       {run(0, 0, 0, 0), run(1, 3, 3, 0), run(2, 6, 6, 0), run(3, 8, 8, 0)}},
      {Step(2),
       {run(0, 2, 3, 0), run(1, 5, 6, 1), run(2, 6, 8, 2), run(3, 8, 10, 4)},
       {run(0, 0, 2, 0), run(1, 3, 5, 2), run(2, 6, 6, 4), run(3, 8, 8, 4)}},
      {Step(5),
       {run(0, 3, 3, 0), run(1, 5, 6, 0), run(2, 8, 8, 1), run(3, 10, 10, 1)},
       {run(0, 0, 3, 0), run(1, 3, 5, 3), run(2, 6, 8, 5), run(3, 8, 10, 7)}},
      {Step(6),
       {run(0, 3, 3, 0), run(1, 6, 6, 0), run(2, 8, 8, 0), run(3, 10, 10, 0)},
       {run(0, 0, 3, 0), run(1, 3, 6, 3), run(2, 6, 8, 6), run(3, 8, 10, 8)}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.step.value());
    EXPECT_THAT(layout.rows_from(c.step), ElementsAreArray(c.from));
    EXPECT_THAT(layout.rows_before(c.step), ElementsAreArray(c.before));
  }
}

TEST(SlabLayout, Equality_NeedsBoundariesAndTile) {
  const SlabLayout layout = SlabLayout::even(6, 2, 2);
  EXPECT_EQ(layout, SlabLayout({0, 3, 6}, 2));
  EXPECT_NE(layout, SlabLayout({0, 3, 6}, 3));
  EXPECT_NE(layout, SlabLayout({0, 2, 6}, 2));
}

// ---- a brute-force oracle ----------------------------------------------------------------------

/// What the definition says, acted out: ranks take turns, each taking its next `tile` columns.
struct ActedOut {
  struct Turn {
    std::int64_t rank;
    std::vector<std::int64_t> rows;
  };
  std::vector<Turn> turns;
  std::vector<std::int64_t> order;

  ActedOut(const std::vector<std::int64_t>& widths, std::int64_t tile) {
    std::vector<std::vector<std::int64_t>> left;
    std::int64_t row = 0;
    for (const std::int64_t width : widths) {
      left.emplace_back(static_cast<std::size_t>(width));
      std::iota(left.back().begin(), left.back().end(), row);
      row += width;
    }
    while (static_cast<std::int64_t>(order.size()) < row) {
      for (std::size_t rank = 0; rank < left.size(); ++rank) {
        auto& mine = left[rank];
        if (mine.empty()) {
          continue;
        }
        const auto end = mine.begin() + std::min(tile, static_cast<std::int64_t>(mine.size()));
        turns.push_back({static_cast<std::int64_t>(rank), {mine.begin(), end}});
        order.insert(order.end(), mine.begin(), end);
        mine.erase(mine.begin(), end);
      }
    }
  }
};

/// The rows of all runs, in packed order; the packed places have to fit.
std::vector<std::int64_t> rows_of(const std::vector<RowRun>& runs) {
  std::vector<std::int64_t> rows;
  for (const RowRun& r : runs) {
    EXPECT_EQ(r.packed, static_cast<std::int64_t>(rows.size()));
    for (GlobalIndex row = r.rows.begin; row < r.rows.end; ++row) {
      rows.push_back(row.value());
    }
  }
  return rows;
}

std::vector<std::int64_t> sorted(std::vector<std::int64_t> rows) {
  std::sort(rows.begin(), rows.end());
  return rows;
}

void expect_rows_around(const SlabLayout& layout, Step step,
                        const std::vector<std::int64_t>& order) {
  const std::int64_t done = layout.eliminated(step);
  const std::vector<std::int64_t> before(order.begin(), order.begin() + done);
  const std::vector<std::int64_t> from(order.begin() + done, order.end());
  EXPECT_EQ(rows_of(layout.rows_before(step)), sorted(before));
  EXPECT_EQ(rows_of(layout.rows_from(step)), sorted(from));
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    const auto mine = [&](std::int64_t row) { return layout.owner(GlobalIndex(row)) == rank; };
    EXPECT_EQ(layout.eliminated(rank, step),
              LocalIndex(std::count_if(before.begin(), before.end(), mine)));
  }
}

void expect_as_acted_out(const SlabLayout& layout, const ActedOut& oracle) {
  ASSERT_EQ(layout.steps(), static_cast<std::int64_t>(oracle.turns.size()));
  Step step;
  for (const ActedOut::Turn& turn : oracle.turns) {
    EXPECT_EQ(layout.owner(step), turn.rank);
    EXPECT_EQ(layout.rows(step).begin, GlobalIndex(turn.rows.front()));
    EXPECT_EQ(layout.rows(step).size(), static_cast<std::int64_t>(turn.rows.size()));
    EXPECT_EQ(layout.global(turn.rank, layout.columns(step).begin), layout.rows(step).begin);
    EXPECT_EQ(layout.columns(step).size(), layout.rows(step).size());
    expect_rows_around(layout, step, oracle.order);
    for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
      const Step next = layout.next_owned(rank, step);
      const auto found = std::find_if(oracle.turns.begin() + step.value(), oracle.turns.end(),
                                      [rank](const ActedOut::Turn& t) { return t.rank == rank; });
      EXPECT_EQ(next, Step(found - oracle.turns.begin()));
    }
    ++step;
  }
  expect_rows_around(layout, step, oracle.order);
  for (std::int64_t p = 0; p < layout.size(); ++p) {
    const GlobalIndex row(oracle.order[static_cast<std::size_t>(p)]);
    EXPECT_EQ(layout.row_at(Position(p)), row);
    EXPECT_EQ(layout.position(row), Position(p));
  }
}

class SlabLayoutOracle : public ::testing::TestWithParam<std::int64_t> {};

/// Every way to give up to four ranks slabs of 0 to 4 columns.
TEST_P(SlabLayoutOracle, EveryWayToCut_AgreesWithTheDefinitionActedOut) {
  constexpr std::int64_t choices = 5;
  const std::int64_t ranks = GetParam();
  std::int64_t cuts = 1;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    cuts *= choices;
  }
  for (std::int64_t cut = 0; cut < cuts; ++cut) {
    std::vector<std::int64_t> widths;
    std::vector<std::int64_t> boundaries{0};
    for (std::int64_t rank = 0, digits = cut; rank < ranks; ++rank, digits /= choices) {
      widths.push_back(digits % choices);
      boundaries.push_back(boundaries.back() + widths.back());
    }
    for (const std::int64_t tile : {1, 2, 3, 5}) {
      SCOPED_TRACE(::testing::PrintToString(widths) + " tile " + std::to_string(tile));
      const SlabLayout layout(boundaries, tile);
      expect_as_acted_out(layout, ActedOut(widths, tile));
      EXPECT_EQ(layout.max_width(), *std::max_element(widths.begin(), widths.end()));
      if (::testing::Test::HasFailure()) {
        return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SlabLayoutOracle, ::testing::Values(1, 2, 3, 4));

TEST(SlabLayoutEven, AnySize_DiffersByAtMostOneColumnWiderFirst) {
  for (std::int64_t n = 0; n < 40; ++n) {
    for (const std::int64_t ranks : {1, 2, 3, 4, 6, 8}) {
      const SlabLayout layout = SlabLayout::even(n, ranks, 3);
      EXPECT_EQ(layout.size(), n);
      for (std::int64_t rank = 0; rank + 1 < ranks; ++rank) {
        EXPECT_GE(layout.width(rank), layout.width(rank + 1));
      }
      EXPECT_LE(layout.width(0) - layout.width(ranks - 1), 1);
    }
  }
}

// ---- misuse ------------------------------------------------------------------------------------

struct Misuse {
  std::string name;
  std::function<void()> make;
  std::vector<std::string> words;  // what was given, what is accepted

  friend std::ostream& operator<<(std::ostream& out, const Misuse& c) { return out << c.name; }
};

std::vector<Misuse> misuses() {
  const auto even = [](std::int64_t n, std::int64_t ranks, std::int64_t tile) {
    return [=] { SlabLayout::even(n, ranks, tile); };
  };
  const auto cut = [](std::vector<std::int64_t> boundaries) {
    return [=] { SlabLayout(boundaries, 2); };
  };
  const std::string accepted = "start at 0, never fall";
  return {
      {"negative_size", even(-1, 2, 2), {"size -1", "0 to 134217728"}},
      {"size_beyond_all_memory",
       even(std::int64_t{1} << 32, 1, 2),
       {"size 4294967296", "0 to 134217728"}},
      {"end_beyond_all_memory",
       cut({0, std::int64_t{1} << 31}),
       {"size 2147483648", "0 to 134217728"}},
      {"no_ranks", even(4, 0, 2), {"0 ranks", "at least 1"}},
      {"negative_ranks", even(4, -3, 2), {"-3 ranks", "at least 1"}},
      {"tile_zero", even(4, 2, 0), {"tile size 0", "at least 1"}},
      {"negative_tile", even(4, 2, -8), {"tile size -8", "at least 1"}},
      {"no_boundaries", cut({}), {"[]", accepted}},
      {"one_boundary", cut({0}), {"[0]", accepted}},
      {"late_start", cut({1, 4}), {"[1, 4]", accepted}},
      {"falling", cut({0, 5, 3, 8}), {"[0, 5, 3, 8]", accepted}},
      {"negative_end", cut({0, -1}), {"[0, -1]", accepted}},
  };
}

class SlabLayoutMisuse : public ::testing::TestWithParam<Misuse> {};

TEST_P(SlabLayoutMisuse, Constructed_ThrowsWhatWasGivenAndWhatIsAccepted) {
  try {
    GetParam().make();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
    for (const std::string& word : GetParam().words) {
      EXPECT_THAT(error.what(), HasSubstr(word));
    }
  }
}

TEST(SlabLayout, RanksAndSteps_ThatAreNotThere_AreRefused) {
  const SlabLayout layout = SlabLayout::even(10, 2, 4);
  const RightHandSides<double> b(layout, 1);
  for (const std::int64_t rank : {-1, 2}) {
    EXPECT_THROW(static_cast<void>(layout.width(rank)), Error);
    EXPECT_THROW(static_cast<void>(b.block(rank)), Error);
  }
  EXPECT_THROW(static_cast<void>(layout.owner(Step(layout.steps()))), Error);
}

INSTANTIATE_TEST_SUITE_P(Cases, SlabLayoutMisuse, ::testing::ValuesIn(misuses()),
                         testing::CaseName());

}  // namespace
}  // namespace shardsolve
