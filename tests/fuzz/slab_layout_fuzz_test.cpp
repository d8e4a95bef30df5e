/// Random slabs against the definition: rows sorted by (block inside the slab, rank).
#include "tests/support/fuzz.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/slab_layout.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace shardsolve {
namespace {

using testing::Random;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();

/// One row, and what the definition says about it.
struct Row {
  std::int64_t row;
  std::int64_t rank;
  std::int64_t local;
  std::int64_t block;

  bool same_step(const Row& other) const { return block == other.block && rank == other.rank; }
};

/// All rows in the order of their elimination.
std::vector<Row> elimination_order(const std::vector<std::int64_t>& boundaries, std::int64_t tile) {
  std::vector<Row> rows;
  for (std::int64_t rank = 0; rank + 1 < std::ssize(boundaries); ++rank) {
    const std::int64_t begin = boundaries[static_cast<std::size_t>(rank)];
    const std::int64_t end = boundaries[static_cast<std::size_t>(rank) + 1];
    for (std::int64_t row = begin; row < end; ++row) {
      rows.push_back({row, rank, row - begin, (row - begin) / tile});
    }
  }
  std::ranges::stable_sort(rows, {}, [](const Row& r) { return std::pair(r.block, r.rank); });
  return rows;
}

/// The runs name, packed one after another, the rows of `rows` sorted, each rank its own.
void expect_runs(const std::vector<RowRun>& runs, const SlabLayout& layout, std::vector<Row> rows) {
  std::ranges::sort(rows, {}, &Row::row);
  ASSERT_EQ(std::ssize(runs), layout.ranks());
  std::size_t next = 0;
  for (const RowRun& run : runs) {
    ASSERT_EQ(run.rank, &run - runs.data());
    ASSERT_EQ(run.packed, static_cast<std::int64_t>(next));
    for (GlobalIndex row = run.rows.begin; row < run.rows.end; ++row, ++next) {
      ASSERT_LT(next, rows.size());
      ASSERT_EQ(row.value(), rows[next].row);
      ASSERT_EQ(run.rank, rows[next].rank);
    }
  }
  ASSERT_EQ(next, rows.size());
}

/// What is said about the moment before `step`, when `done` rows are eliminated.
void expect_moment(const SlabLayout& layout, const std::vector<Row>& order, Step step,
                   std::int64_t done) {
  const std::vector<Row> before(order.begin(), order.begin() + done);
  const std::vector<Row> after(order.begin() + done, order.end());
  ASSERT_EQ(layout.eliminated(step), done);
  expect_runs(layout.rows_before(step), layout, before);
  expect_runs(layout.rows_from(step), layout, after);
  for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
    ASSERT_EQ(layout.eliminated(rank, step).value(), std::ranges::count(before, rank, &Row::rank));
    // The steps of all blocks up to the next one of this rank.
    const auto mine = std::ranges::find(after, rank, &Row::rank);
    std::int64_t next = step.value();
    for (auto row = after.begin(); row != mine; ++row) {
      const bool last_of_step = row + 1 == after.end() || !row->same_step(*(row + 1));
      next += last_of_step ? 1 : 0;
    }
    ASSERT_EQ(layout.next_owned(rank, step).value(), next);
  }
}

void expect_layout(const SlabLayout& layout, const std::vector<Row>& order) {
  ASSERT_EQ(layout.size(), std::ssize(order));
  Step step;
  for (std::int64_t done = 0; done < std::ssize(order); ++step) {
    const Row& first = order[static_cast<std::size_t>(done)];
    const std::int64_t size =
        std::ranges::count_if(order, [&](const Row& row) { return row.same_step(first); });
    ASSERT_LT(step.value(), layout.steps());
    ASSERT_EQ(layout.owner(step), first.rank);
    ASSERT_EQ(layout.columns(step),
              (LocalRange{LocalIndex(first.local), LocalIndex(first.local + size)}));
    ASSERT_EQ(layout.rows(step),
              (GlobalRange{GlobalIndex(first.row), GlobalIndex(first.row + size)}));
    ASSERT_NO_FATAL_FAILURE(expect_moment(layout, order, step, done));
    done += size;
  }
  ASSERT_EQ(step.value(), layout.steps());
  ASSERT_NO_FATAL_FAILURE(expect_moment(layout, order, step, layout.size()));
}

void expect_permutation(const SlabLayout& layout, const std::vector<Row>& order) {
  Position position;
  for (const Row& row : order) {
    ASSERT_EQ(layout.owner(GlobalIndex(row.row)), row.rank);
    ASSERT_EQ(layout.position(GlobalIndex(row.row)), position);
    ASSERT_EQ(layout.row_at(position).value(), row.row);
    ASSERT_EQ(layout.global(row.rank, LocalIndex(row.local)).value(), row.row);
    ++position;
  }
}

std::vector<std::int64_t> random_boundaries(Random& random) {
  std::vector<std::int64_t> boundaries{0};
  const std::int64_t widest = 1 + random.below(30);
  for (std::int64_t ranks = 1 + random.below(8); ranks > 0; --ranks) {
    const std::int64_t width = random.one_in(4) ? 0 : random.below(widest + 1);
    boundaries.push_back(boundaries.back() + width);
  }
  return boundaries;
}

TEST(SlabLayoutFuzz, RandomSlabs_AreEliminatedAsDefined) {
  testing::fuzz(20000, [](Random& random) {
    const std::vector<std::int64_t> boundaries = random_boundaries(random);
    const std::int64_t tile = random.one_in(20) ? largest - random.below(2) : 1 + random.below(35);
    SCOPED_TRACE(::testing::PrintToString(boundaries) + " tile " + std::to_string(tile));
    const SlabLayout layout(boundaries, tile);
    const std::vector<Row> order = elimination_order(boundaries, tile);
    expect_layout(layout, order);
    expect_permutation(layout, order);
  });
}

/// Far more rows than can be listed: what holds without listing them.
TEST(SlabLayoutFuzz, HugeSlabs_KeepPositionAndRowInverse) {
  testing::fuzz(50000, [](Random& random) {
    const std::int64_t ranks = 1 + random.below(5);
    std::vector<std::int64_t> boundaries{0};
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      boundaries.push_back(boundaries.back() + random.below(SlabLayout::largest_size / ranks) + 1);
    }
    const std::int64_t tile = SlabLayout::largest_size / (1 + random.below(8)) - random.below(3);
    SCOPED_TRACE(::testing::PrintToString(boundaries) + " tile " + std::to_string(tile));
    const SlabLayout layout(boundaries, tile);
    std::int64_t rows = 0;
    for (Step step; step < Step(layout.steps()); ++step) {
      ASSERT_EQ(layout.eliminated(step), rows);
      rows += layout.rows(step).size();
      ASSERT_EQ(layout.rows_from(step).back().packed + layout.rows_from(step).back().rows.size(),
                layout.size() - layout.eliminated(step));
    }
    ASSERT_EQ(rows, layout.size());
    const GlobalIndex row(random.below(layout.size()));
    ASSERT_EQ(layout.row_at(layout.position(row)), row);
  });
}

TEST(SlabLayoutFuzz, HostileArguments_ThrowError) {
  constexpr std::int64_t extremes[] = {smallest, smallest + 1, -1000, -1, 0, 1, 7, 1000, largest};
  const auto is_refused = [](auto make) {
    try {
      make();
      return false;
    } catch (const Error& error) {
      return error.kind() == ErrorKind::invalid_argument;
    }
  };
  testing::fuzz(20000, [&](Random& random) {
    std::vector<std::int64_t> boundaries;
    for (std::int64_t count = random.below(5); count > 0; --count) {
      boundaries.push_back(random.one_of(extremes));
    }
    const bool possible = boundaries.size() >= 2 && boundaries[0] == 0 &&
                          std::ranges::is_sorted(boundaries) &&
                          boundaries.back() <= SlabLayout::largest_size;
    const std::int64_t tile = random.one_of(extremes);
    if (!possible || tile < 1) {
      ASSERT_TRUE(is_refused([&] { SlabLayout(boundaries, tile); }))
          << ::testing::PrintToString(boundaries) << " tile " << tile;
    }
    const std::int64_t n = random.one_of(extremes);
    const std::int64_t ranks = random.one_of(extremes);
    if (n < 0 || n > SlabLayout::largest_size || ranks < 1 || (ranks <= 1000 && tile < 1)) {
      ASSERT_TRUE(is_refused([&] { SlabLayout::even(n, ranks, tile); }))
          << n << " rows, " << ranks << " ranks, tile " << tile;
    }
  });
}

}  // namespace
}  // namespace shardsolve
