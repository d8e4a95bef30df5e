/// Cholesky's factor of a symmetric matrix of dense blocks, by the kernels of one device.
#pragma once

#include "mesh/rank.hpp"
#include "runtime/front_kernels.hpp"
#include "sparse/block_cholesky.hpp"
#include "sparse/block_graph.hpp"
#include "sparse/elimination_tree.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace shardsolve::sparse {

/// As BlockCholesky<double>. Fronts of the same depth in the tree, none of which waits for another,
/// are done together, the deepest first. What they leave is kept until those above them are done,
/// so that it takes more memory than front after front.
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

  /// Takes memory of the rank's call, for which it may be used. Keeps no reference to the graph.
  FrontsOnDevice(mesh::Rank& rank, const BlockGraph& graph, EliminationTree tree);

  /// Bytes of device memory that it takes.
  static double bytes(const EliminationTree& tree);

  /// Every block that is not zero once, those on the diagonal too.
  const std::vector<BlockPlace>& places() const { return places_; }
  /// `store` enqueues the storing of all blocks on rank.update(). Waits for the end. Returns the
  /// pivot at which it stopped, if one was not positive; then there is no factor.
  std::optional<BlockPivot> factor(const std::function<void()>& store);
  /// Enqueues x := A^-1 x on rank.update(); blocks in the order of the graph, in device memory.
  void solve(double* x) const;

  const EliminationTree& tree() const { return tree_; }

 private:
  /// Fronts of one depth: the batch, and its parts whose parents all differ.
  struct Level {
    runtime::FrontBatch batch;
    std::vector<runtime::FrontBatch> siblings;
    double* rest = nullptr;       ///< what the batch leaves
    std::int64_t rest_count = 0;  ///< how many numbers
  };

  void order_fronts();
  void take_memory();
  void make_tables(const BlockGraph& graph);
  void find_places(const BlockGraph& graph);
  runtime::FrontBatch batch_of(std::int64_t first, std::int64_t count) const;
  std::vector<std::int64_t> block_begins(const FrontNode& node, const BlockGraph& graph) const;
  const FrontNode& node_at(std::int64_t place) const {
    return tree_.nodes[static_cast<std::size_t>(order_[static_cast<std::size_t>(place)])];
  }

  mesh::Rank& rank_;
  const runtime::FrontKernels& kernels_;
  EliminationTree tree_;
  std::vector<std::int64_t> sizes_;  ///< of the blocks
  std::vector<std::int32_t> order_;  ///< nodes as the kernels number them
  std::vector<std::int32_t> place_;  ///< of each node in it
  std::vector<Level> levels_;        ///< the deepest first
  std::vector<runtime::DeviceFront> fronts_;
  double* panels_ = nullptr;
  std::int64_t panel_count_ = 0;
  const runtime::DeviceFront* on_device_ = nullptr;
  std::int32_t* failed_ = nullptr;
  std::vector<BlockPlace> places_;
};

}  // namespace shardsolve::sparse
