// How T is taken apart.

#include "dense/eigh/merge_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shardsolve::dense::eigh {
namespace {

using Bounds = std::vector<std::int64_t>;

TEST(MergeTree, WithoutRows_HasNoParts) { EXPECT_TRUE(merge_tree({0, 0, 0}, 64).empty()); }

TEST(MergeTree, FewRows_AreOneLeaf) {
  const std::vector<Part> parts = merge_tree({0, 0, 20, 64}, 64);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_TRUE(parts[0].is_leaf);
  EXPECT_TRUE(parts[0].is_shared());
  EXPECT_EQ(merge_tree({0, 0, 64, 64}, 64)[0].owner, 1);
}

TEST(MergeTree, ManyRows_AreCutWhereRanksMeet) {
  const std::vector<Part> parts = merge_tree({0, 17, 17, 90, 120}, 64);
  ASSERT_EQ(parts.size(), 7U);
  EXPECT_EQ(parts.back().rows, (RowRange{0, 120}));
  EXPECT_EQ(parts.back().middle, 90);
  EXPECT_TRUE(parts.back().is_shared());
  EXPECT_EQ(parts[4].rows, (RowRange{0, 90}));
  EXPECT_EQ(parts[4].middle, 17);
  EXPECT_EQ(parts[3].rows, (RowRange{17, 90}));
  EXPECT_EQ(parts[3].owner, 2);
  EXPECT_EQ(parts[3].middle, 53);
}

TEST(MergeTree, EveryPart_ComesBehindItsHalvesAndEveryRowIsInOneLeaf) {
  for (const Bounds& bounds :
       {Bounds{0, 1000}, Bounds{0, 300, 301, 302, 999}, Bounds{0, 0, 5, 70, 500, 500},
        Bounds{0, 65, 130, 195, 260}, Bounds{0, 20, 40, 60, 80, 100, 120, 140}}) {
    const std::vector<Part> parts = merge_tree(bounds, 64);
    std::int64_t next = 0;
    std::vector<RowRange> done;
    for (const Part& part : parts) {
      if (part.is_leaf) {
        EXPECT_EQ(part.rows.begin, next);
        EXPECT_LE(part.rows.size(), 64);
        next = part.rows.end;
      } else {
        ASSERT_GE(done.size(), 2U);
        EXPECT_EQ(done.back(), part.second_half());
        done.pop_back();
        EXPECT_EQ(done.back(), part.first_half());
        done.pop_back();
      }
      EXPECT_EQ(part.is_shared(),
                owner_of(bounds, part.rows.begin) != owner_of(bounds, part.rows.end - 1));
      done.push_back(part.rows);
    }
    EXPECT_EQ(next, bounds.back());
    EXPECT_EQ(done.size(), 1U);
  }
}

TEST(OwnMerges, EachIsInALevelBehindItsHalves) {
  for (const Bounds& bounds : {Bounds{0, 1000}, Bounds{0, 300, 301, 302, 999},
                               Bounds{0, 0, 5, 70, 500, 500}, Bounds{0, 65, 130}}) {
    const std::vector<Part> parts = merge_tree(bounds, 64);
    for (std::int64_t owner = 0; owner + 1 < static_cast<std::int64_t>(bounds.size()); ++owner) {
      std::vector<RowRange> done;
      for (const Part& part : parts) {
        if (part.is_leaf) {
          done.push_back(part.rows);
        }
      }
      const auto is_done = [&](const RowRange& rows) {
        return std::find(done.begin(), done.end(), rows) != done.end();
      };
      std::int64_t merges = 0;
      for (const std::vector<Part>& level : own_merges(parts, owner)) {
        std::int64_t end = 0;
        for (const Part& part : level) {
          EXPECT_EQ(part.owner, owner);
          EXPECT_GE(part.rows.begin, end);
          EXPECT_TRUE(is_done(part.first_half()) && is_done(part.second_half()));
          end = part.rows.end;
        }
        for (const Part& part : level) {
          done.push_back(part.rows);
          ++merges;
        }
      }
      EXPECT_EQ(merges, std::count_if(parts.begin(), parts.end(), [&](const Part& part) {
                  return !part.is_leaf && part.owner == owner;
                }));
    }
  }
}

}  // namespace
}  // namespace shardsolve::dense::eigh
