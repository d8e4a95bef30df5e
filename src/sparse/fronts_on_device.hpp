/// Cholesky's factor of a symmetric matrix of dense blocks, by the kernels of one device.
#pragma once

#include "mesh/rank.hpp"
#include "runtime/front_kernels.hpp"
#include "sparse/block_cholesky.hpp"
#include "sparse/block_graph.hpp"
#include "sparse/elimination_tree.hpp"
#include "sparse/front_schedule.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace shardsolve::sparse {

/// As BlockCholesky<double>, level after level of a FrontSchedule.
class FrontsOnDevice {
 public:
  /// Where block (row, column) of the matrix is to be stored, in device memory that is 0 there: of
  /// sizes[row] rows and sizes[column] columns, column-major.
  struct BlockPlace {
    std::int32_t row = 0;
    std::int32_t column = 0;
    double* target = nullptr;
    std::int64_t stride = 0;
  };

  /// Takes memory of the rank's call, for which it may be used: `max_bytes` if that is possible,
  /// see schedule_fronts. Keeps no reference to the graph.
  FrontsOnDevice(mesh::Rank& rank, const BlockGraph& graph, EliminationTree tree, double max_bytes);

  /// Every block that is not zero once, those on the diagonal too.
  const std::vector<BlockPlace>& places() const { return places_; }
  /// `store` enqueues the storing of all blocks on rank.update(). Waits for the end. Returns the
  /// pivot at which it stopped, if one was not positive; then there is no factor.
  std::optional<BlockPivot> factor(const std::function<void()>& store);
  /// Enqueues x := A^-1 x on rank.update(); blocks in the order of the graph, in device memory.
  void solve(double* x) const;

  const EliminationTree& tree() const { return tree_; }

  /// What is done when the fronts below are, and when those above are: parts of solve().
  void solve_forward(double* x) const;
  void solve_back(double* x) const;
  /// What a front leaves, outer x outer: of a given one to be written before factor(), of a root to
  /// be read after it.
  MatrixView<double> rest(std::int32_t node) const {
    const FrontNode& of = tree_.nodes[static_cast<std::size_t>(node)];
    return {device_front(node).rest, of.outer, of.outer};
  }
  /// What solve_forward() leaves of a vector: of a given one to be written before.
  double* border(std::int32_t node) const {
    return device_front(node).local + device_front(node).own;
  }

 private:
  struct Level {
    runtime::FrontBatch batch;
    std::vector<runtime::FrontBatch> children;  ///< what is added first
    MatrixView<double> rest;                    ///< what the batch leaves
    bool is_given = false;
  };
  const runtime::DeviceFront& device_front(std::int32_t node) const {
    return fronts_[static_cast<std::size_t>(place_[static_cast<std::size_t>(node)])];
  }

  void take_memory();
  void make_tables(const BlockGraph& graph);
  void find_places(const BlockGraph& graph);
  runtime::FrontBatch batch_of(FrontSchedule::Range range) const;
  std::vector<std::int64_t> block_begins(const FrontNode& node, const BlockGraph& graph) const;
  const FrontNode& node_at(std::int64_t place) const {
    return tree_.nodes[static_cast<std::size_t>(schedule_.order[static_cast<std::size_t>(place)])];
  }

  mesh::Rank& rank_;
  const runtime::FrontKernels& kernels_;
  EliminationTree tree_;
  std::vector<std::int64_t> sizes_;  ///< of the blocks
  FrontSchedule schedule_;           ///< the order of which is that of the kernels' numbers
  std::vector<std::int32_t> place_;  ///< of each node in it
  std::vector<Level> levels_;
  std::vector<runtime::DeviceFront> fronts_;
  double* panels_ = nullptr;
  std::int64_t panel_count_ = 0;
  double* rests_ = nullptr;
  const runtime::DeviceFront* on_device_ = nullptr;
  std::int32_t* failed_ = nullptr;
  std::vector<BlockPlace> places_;
};

}  // namespace shardsolve::sparse
