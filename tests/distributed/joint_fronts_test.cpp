// Fronts that all processes factor together, against the dense matrix and against one process.

#include "fbpinn/on_ranks.hpp"
#include "sparse/block_cholesky.hpp"
#include "sparse/joint_front.hpp"
#include "tests/support/block_matrices.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/faults.hpp"
#include "tests/support/process_meshes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardsolve::sparse {
namespace {

using namespace testing::block_matrices;

TEST(SparseJointFront, EveryColumnHasOnePlaceAndOwnOnesComeFirst) {
  for (const std::int64_t ranks : {1, 2, 3, 5}) {
    for (const std::int64_t own : {0, 1, 4, 5, 23}) {
      for (const std::int64_t outer : {0, 1, 9}) {
        const JointFront front(own, outer, ranks, {.tile = 4, .round = 2});
        const SlabLayout& layout = front.layout();
        ASSERT_EQ(layout.size(), own + outer + front.pads());
        std::vector<std::int64_t> seen(static_cast<std::size_t>(layout.size()));
        for (std::int64_t column = 0; column < layout.size(); ++column) {
          const std::int64_t row = front.row(column);
          ++seen[static_cast<std::size_t>(row)];
          ASSERT_EQ(layout.owner(GlobalIndex(row)), front.rank(column));
          ASSERT_EQ(layout.global(front.rank(column), LocalIndex(front.place(column))).value(),
                    row);
          // Own columns, pads, outer columns.
          const std::int64_t at = layout.position(GlobalIndex(row)).value();
          ASSERT_EQ(at, column < own           ? column
                        : column < own + outer ? column + front.pads()
                                               : column - outer);
          ASSERT_EQ(front.place(column) < front.own_width(front.rank(column)),
                    column < own || column >= own + outer);
        }
        ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), layout.size());
        ASSERT_EQ(layout.eliminated(front.end()), own + front.pads());
      }
    }
  }
}

template <Scalar T>
struct Result {
  std::optional<BlockPivot> failure;
  std::vector<T> x;
};

constexpr std::int64_t right_hand_sides = 2;

template <Scalar T>
std::vector<T> b_of(std::int64_t n) {
  std::vector<T> b;
  for (std::int64_t i = 0; i < n * right_hand_sides; ++i) {
    b.push_back(static_cast<RealOf<T>>(number(i, std::int64_t{1} << 40)));
  }
  return b;
}

template <Scalar T>
Result<T> solved(const BlockGraph& graph, const TestMatrix<T>& matrix, const JointFronts& joint,
                 Workers workers) {
  workers.joint_fronts = joint;
  BlockCholesky<T> factor(graph, nested_dissection(graph));
  Result<T> result;
  result.failure = factor.factor(
      [&](std::int32_t i, std::int32_t j, MatrixView<T> target) { matrix.add(i, j, target); },
      workers);
  if (!result.failure) {
    result.x = b_of<T>(graph.columns());
    factor.solve(MatrixView<T>(result.x.data(), graph.columns(), right_hand_sides), workers);
  }
  return result;
}

/// What each process gets.
template <Scalar T>
std::vector<Result<T>> in_processes(testing::ProcessMeshes& meshes, const BlockGraph& graph,
                                    const TestMatrix<T>& matrix, const JointFronts& joint) {
  std::vector<Result<T>> results(static_cast<std::size_t>(meshes.ranks()));
  const auto errors = meshes.together([&](Mesh& mesh, std::int64_t rank) {
    const RunOptions run;
    results[static_cast<std::size_t>(rank)] =
        solved(graph, matrix, joint, fbpinn::on_ranks(mesh, run));
  });
  for (const auto& error : errors) {
    EXPECT_FALSE(error) << error->what();
  }
  return results;
}

template <Scalar T>
class SparseJointFronts : public ::testing::Test {};
TYPED_TEST_SUITE(SparseJointFronts, testing::Dtypes, testing::DtypeNames);

TYPED_TEST(SparseJointFronts, AnyGraph_HasTheSolutionOfOneProcessOnAllAndItsBitsAgain) {
  using T = TypeParam;
  for (const std::int64_t ranks : {1, 2, 3, 4, 6}) {
    testing::ProcessMeshes meshes(ranks, 4096,
                                  ranks % 2 == 0 ? testing::Hosts::one : testing::Hosts::one_each);
    for (const BlockGraph& graph : graphs()) {
      const TestMatrix<T> matrix(graph);
      const Result<T> expected = solved(graph, matrix, {}, {});
      // All fronts above the subtrees, the larger ones, in tiles of one size and another.
      for (const JointFronts& joint : {JointFronts{0, 3}, {0, 256}, {3000, 5}}) {
        const auto results = in_processes(meshes, graph, matrix, joint);
        double largest = 0.0;
        double difference = 0.0;
        for (std::size_t i = 0; i < expected.x.size(); ++i) {
          largest = std::max<double>(largest, std::abs(expected.x[i]));
          difference = std::max<double>(difference, std::abs(results[0].x[i] - expected.x[i]));
        }
        ASSERT_LE(difference, 100 * unit_roundoff<T> * largest) << ranks << " ranks";
        for (const Result<T>& one : results) {
          ASSERT_EQ(one.x, results[0].x);
        }
        if (ranks == 3) {
          ASSERT_EQ(in_processes(meshes, graph, matrix, joint)[1].x, results[1].x);
        }
      }
    }
  }
}

TEST(SparseJointFronts, NotPositivePivot_IsNamedByAllAndTheNextCallIsFine) {
  testing::ProcessMeshes meshes(3);
  const BlockGraph graph = grid_graph(6, true);
  const EliminationTree tree = nested_dissection(graph);
  const TestMatrix<double> good(graph);
  for (const std::int32_t block :
       {tree.nodes.back().blocks.front(), tree.nodes.back().blocks.back(),
        tree.nodes.front().blocks.front()}) {
    TestMatrix<double> matrix(graph);
    const std::int64_t row = graph.offsets()[static_cast<std::size_t>(block) + 1] - 1;
    matrix.at(row, row) = -1;
    for (const auto& one : in_processes(meshes, graph, matrix, {0, 3})) {
      ASSERT_TRUE(one.failure);
      EXPECT_EQ(one.failure->block, block);
      EXPECT_EQ(one.failure->column, graph.size(block) - 1);
    }
    EXPECT_FALSE(in_processes(meshes, graph, good, {0, 3})[0].failure);
  }
}

TEST(SparseJointFronts, AnyCallOrAllocationThatFails_EndsTheCallOfAll) {
  constexpr std::int64_t ranks = 2;
  testing::ProcessMeshes meshes(ranks);
  const BlockGraph graph = grid_graph(6, true);
  const TestMatrix<double> matrix(graph);
  const JointFronts joint{20000, 5};
  const auto run = [&] {
    return meshes.together([&](Mesh& mesh, std::int64_t) {
      const RunOptions options;
      solved(graph, matrix, joint, fbpinn::on_ranks(mesh, options));
    });
  };
  meshes.clear_faults();
  ASSERT_FALSE(run()[0]);
  const std::int64_t calls = meshes.faults(1).calls(1);
  for (std::int64_t call = 0; call < calls; call += 1 + calls / 12) {
    meshes.clear_faults();
    meshes.faults(1).strike_call(1, call, testing::Fault::failed);
    for (const auto& error : run()) {
      ASSERT_TRUE(error) << "call " << call;
      EXPECT_EQ(std::string(error->what()), meshes.faults(1).planted().what());
    }
  }
  meshes.clear_faults();
  EXPECT_FALSE(run()[1]);
}

}  // namespace
}  // namespace shardsolve::sparse
