/// Small rank programs: what the mesh and the communicator promise, without an algorithm on top.
#pragma once

#include "mesh/mesh_state.hpp"
#include "reference/dense_matrix.hpp"
#include "runtime/host/host_queue.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/cholesky.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::testing {

inline void run_on(Mesh& mesh, mesh::RankProgram program, const RunOptions& options = {}) {
  mesh.state().run(options, std::move(program));
}

/// One value of `root`, broadcast and waited for.
inline std::int64_t broadcast_value(mesh::Rank& rank, std::int64_t root, std::int64_t value) {
  const MatrixView<std::int64_t> cell = rank.workspace<std::int64_t>(1, 1);
  rank.transfer().store(cell.data(), rank.index() == root ? value : -1, 1);
  rank.communicator().broadcast(rank.transfer(), {cell.data(), sizeof(std::int64_t)}, root);
  return rank.fetch(rank.transfer(), cell.data(), 1).front();
}

/// What a matrix that a rank program sees holds when its update queue is done, on the host.
template <class V>
reference::DenseMatrix<std::remove_const_t<V>> fetched(mesh::Rank& rank, MatrixView<V> view) {
  using Value = std::remove_const_t<V>;
  Value* const memory = rank.host_workspace<Value>(view.rows() * view.columns());
  for (std::int64_t j = 0; j < view.columns(); ++j) {
    rank.update().copy(memory + j * view.rows(), view.columns_from(j, 1).data(),
                       static_cast<std::size_t>(view.rows()) * sizeof(Value));
  }
  rank.finish(rank.update());
  return reference::DenseMatrix<Value>(
      MatrixView<const Value>(memory, view.rows(), view.columns()));
}

/// The reverse: copies a matrix of the host to one without gaps, and waits for that.
template <Scalar T>
void upload(mesh::Rank& rank, const reference::DenseMatrix<T>& matrix, MatrixView<T> target) {
  rank.update().copy(target.data(), matrix.data(),
                     static_cast<std::size_t>(matrix.rows() * matrix.columns()) * sizeof(T));
  rank.finish(rank.update());
}

/// Enqueues any work as a kernel would.
inline void enqueue(runtime::Queue& queue, const char* name, std::function<void()> work) {
  static_cast<runtime::host::HostQueue&>(queue).launch({.name = name}, std::move(work));
}

/// Whether the mesh still solves a system as it should.
inline ::testing::AssertionResult still_solves(Mesh& mesh) {
  const SlabLayout layout = SlabLayout::even(41, mesh.ranks(), 6);
  const DenseMatrix<double> a = dense<double>({.n = layout.size(), .seed = 3});
  const DenseMatrix<double> b = right_hand_sides<double>(layout.size(), 2);
  const RightHandSides<double> x = shard_rows(b, layout);
  const Outcome outcome = solve(mesh, shard(a, layout), x);
  if (!outcome.ok()) {
    return ::testing::AssertionFailure() << outcome.message();
  }
  return solves(a, whole(x), b);
}

}  // namespace shardsolve::testing
