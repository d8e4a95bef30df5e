// Which rank does which fronts, and what memory that takes.

#include "sparse/front_placement.hpp"

#include "sparse/elimination_tree.hpp"
#include "tests/support/block_matrices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace shardsolve::sparse {
namespace {

using namespace testing::block_matrices;
using Kind = FrontPlacement::Kind;

constexpr JointFronts none_joint{.least_flops = 1e300};

TEST(SparseFrontPlacement, SpreadTop_IsDoneByRanksThatHaveAChild) {
  for (const std::int64_t ranks : {2, 3, 4, 8}) {
    const EliminationTree tree = nested_dissection(grid_graph(16, true));
    const FrontPlacement placement = spread_fronts(tree, ranks, none_joint);
    std::set<std::int64_t> of_top;
    for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
      ASSERT_NE(placement.kind[n], Kind::joint);
      const auto& children = tree.nodes[n].children;
      const auto has_child = [&](std::int32_t child) {
        return placement.rank[static_cast<std::size_t>(child)] == placement.rank[n];
      };
      if (placement.kind[n] == Kind::top) {
        of_top.insert(placement.rank[n]);
        EXPECT_TRUE(std::any_of(children.begin(), children.end(), has_child));
      } else {
        EXPECT_TRUE(std::all_of(children.begin(), children.end(), has_child));
      }
    }
    EXPECT_GT(of_top.size(), ranks < 8 ? 0U : 1U) << ranks;
  }
}

TEST(SparseFrontPlacement, BytesOfFronts_AreThoseOfOneProcessAndShrink) {
  const EliminationTree tree = nested_dissection(grid_graph(24, true));
  const auto most = [&](std::int64_t ranks) {
    const FrontPlacement placement = spread_fronts(tree, ranks, none_joint);
    double bytes = 0.0;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      bytes = std::max(bytes, bytes_of_fronts(tree, placement, rank, ranks, none_joint));
    }
    return bytes;
  };
  EXPECT_DOUBLE_EQ(most(1), cost_of(tree).peak_bytes);
  EXPECT_LT(most(2), 0.75 * most(1));
  EXPECT_LT(most(4), 0.75 * most(2));
  EXPECT_LT(most(8), 0.9 * most(4));
}

/// Those of the tests of joint fronts.
TEST(SparseFrontPlacement, AllThatAreLargeEnough_AreJointUpToTheRoot) {
  for (const std::int64_t ranks : {2, 3, 4, 6}) {
    for (const BlockGraph& graph :
         {grid_graph(6, true), grid_graph(7, false), grid_graph(9, true)}) {
      const EliminationTree tree = nested_dissection(graph);
      for (const double least_flops : {0.0, 3000.0}) {
        const FrontPlacement placement = spread_fronts(tree, ranks, {least_flops, 3});
        EXPECT_FALSE(placement.joint.empty());
        for (const std::int32_t node : placement.joint) {
          const std::int32_t parent = tree.nodes[static_cast<std::size_t>(node)].parent;
          EXPECT_TRUE(parent < 0 ||
                      placement.kind[static_cast<std::size_t>(parent)] == Kind::joint);
        }
      }
    }
  }
}

TEST(SparseFrontPlacement, OneLargeFront_IsJoint) {
  const EliminationTree tree = nested_dissection(random_graph(12, 2.0));
  ASSERT_EQ(tree.nodes.size(), 1U);
  EXPECT_EQ(spread_fronts(tree, 3, {.least_flops = 0}).joint.size(), 1U);
  EXPECT_EQ(spread_fronts(tree, 1, {.least_flops = 0}).joint.size(), 0U);
  EXPECT_EQ(spread_fronts(tree, 3, none_joint).joint.size(), 0U);
}

}  // namespace
}  // namespace shardsolve::sparse
