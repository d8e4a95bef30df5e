// Fronts of several devices by the GPU's kernels, emulated, against one process of CPUs.

#include "sparse/fronts_on_devices.hpp"

#include "kernels/emulated_gpu.hpp"
#include "sparse/block_cholesky.hpp"
#include "tests/support/block_matrices.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace shardsolve::testing::devices_fronts {
namespace {

using namespace block_matrices;
using sparse::BlockPivot;
using sparse::FrontPlacement;
using sparse::JointFronts;

struct Result {
  std::optional<BlockPivot> failure;
  std::vector<double> x;
  std::vector<double> again;  ///< solved for a second time
};

std::vector<double> b_of(std::int64_t n) {
  std::vector<double> b;
  for (std::int64_t i = 0; i < n; ++i) {
    b.push_back(number(i, std::int64_t{1} << 40));
  }
  return b;
}

std::vector<Result> on_gpus(std::int64_t ranks, const BlockGraph& graph,
                            const TestMatrix<double>& matrix, const JointFronts& joint) {
  Mesh mesh = emulated_gpus(ranks);
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  const RunOptions run;
  mesh.state().run(run, [&](mesh::Rank& rank) {
    const sparse::EliminationTree tree = sparse::nested_dissection(graph);
    sparse::FrontsOnDevices fronts(rank, graph, tree, sparse::place_fronts(tree, ranks, joint),
                                   joint, 1e9);
    const auto store = [&](std::span<const sparse::FrontsOnDevices::BlockPlace> places) {
      rank.finish(rank.update());
      for (const auto& place : places) {
        matrix.add(place.row, place.column,
                   MatrixView<double>(place.target, graph.size(place.row), graph.size(place.column),
                                      std::max<std::int64_t>(place.stride, 1)));
      }
    };
    Result& result = results[static_cast<std::size_t>(rank.index())];
    result.failure = fronts.factor(store);
    if (!result.failure) {
      for (std::vector<double>* const x : {&result.x, &result.again}) {
        *x = b_of(graph.columns());
        fronts.solve(x->data());
      }
    }
  });
  return results;
}

/// All fronts above the subtrees on one device; all joint; the larger ones.
const JointFronts ways[] = {
    {.least_flops = std::numeric_limits<double>::infinity()}, {0, 3}, {0, 7, 4}, {3000, 5}};

TEST(EmulatedDevices, AnyGraph_HasTheSolutionOfTheCpuOnAllAndItsBitsAgain) {
  for (const std::int64_t ranks : {1, 2, 3, 4, 6}) {
    for (const BlockGraph& graph : graphs()) {
      const TestMatrix<double> matrix(graph);
      sparse::BlockCholesky<double> factor(graph, sparse::nested_dissection(graph));
      ASSERT_FALSE(factor.factor(
          [&](std::int32_t i, std::int32_t j, MatrixView<double> to) { matrix.add(i, j, to); }));
      std::vector<double> expected = b_of(graph.columns());
      factor.solve(MatrixView<double>(expected.data(), graph.columns(), 1));
      for (const JointFronts& joint : ways) {
        const std::vector<Result> results = on_gpus(ranks, graph, matrix, joint);
        ASSERT_FALSE(results[0].failure);
        double largest = 0.0;
        double difference = 0.0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          largest = std::max(largest, std::abs(expected[i]));
          difference = std::max(difference, std::abs(results[0].x[i] - expected[i]));
        }
        ASSERT_LE(difference, 1e-13 * largest) << ranks << " ranks, " << joint.least_flops;
        for (const Result& one : results) {
          ASSERT_EQ(one.x, results[0].x);
          ASSERT_EQ(one.again, results[0].x);
        }
        if (ranks == 3) {
          ASSERT_EQ(on_gpus(ranks, graph, matrix, joint)[1].x, results[1].x);
        }
      }
    }
  }
}

TEST(EmulatedDevices, NotPositivePivot_IsNamedByAll) {
  const BlockGraph graph = grid_graph(6, true);
  const sparse::EliminationTree tree = sparse::nested_dissection(graph);
  for (const std::int32_t block :
       {tree.nodes.back().blocks.front(), tree.nodes.back().blocks.back(),
        tree.nodes.front().blocks.front()}) {
    TestMatrix<double> matrix(graph);
    const std::int64_t row = graph.offsets()[static_cast<std::size_t>(block) + 1] - 1;
    matrix.at(row, row) = -1;
    for (const JointFronts& joint : ways) {
      for (const Result& one : on_gpus(3, graph, matrix, joint)) {
        ASSERT_TRUE(one.failure);
        EXPECT_EQ(one.failure->block, block);
        EXPECT_EQ(one.failure->column, graph.size(block) - 1);
      }
    }
  }
}

TEST(SparseFrontPlacement, Subtrees_AreDealtEvenlyAndJointFrontsAreOnTop) {
  BlockGraph graph = grid_graph(24, true);
  std::fill(graph.sizes.begin(), graph.sizes.end(), 30);
  const sparse::EliminationTree tree = sparse::nested_dissection(graph);
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    const FrontPlacement placement = sparse::place_fronts(tree, ranks, {.least_flops = 1e8});
    std::vector<double> load(static_cast<std::size_t>(ranks));
    double total = 0.0;
    for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
      const std::int32_t parent = tree.nodes[n].parent;
      total += tree.nodes[n].flops();
      if (placement.kind[n] == FrontPlacement::Kind::subtree) {
        load[static_cast<std::size_t>(placement.rank[n])] += tree.nodes[n].flops();
      } else if (parent >= 0 && placement.kind[n] == FrontPlacement::Kind::joint) {
        EXPECT_EQ(placement.kind[static_cast<std::size_t>(parent)], FrontPlacement::Kind::joint);
      }
      if (parent >= 0 && placement.kind[n] != FrontPlacement::Kind::subtree) {
        EXPECT_NE(placement.kind[static_cast<std::size_t>(parent)], FrontPlacement::Kind::subtree);
      }
    }
    EXPECT_EQ(placement.joint.empty(), ranks == 1);
    EXPECT_LT(*std::max_element(load.begin(), load.end()),
              ranks == 1 ? 1.01 * total : 0.75 * total);
  }
}

}  // namespace
}  // namespace shardsolve::testing::devices_fronts
