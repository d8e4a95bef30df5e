/// Cholesky's factor of a symmetric matrix of dense blocks, by the kernels of several devices.
#pragma once

#include "mesh/rank.hpp"
#include "runtime/front_kernels.hpp"
#include "sparse/block_cholesky.hpp"
#include "sparse/block_graph.hpp"
#include "sparse/elimination_tree.hpp"
#include "sparse/front_placement.hpp"
#include "sparse/fronts_on_device.hpp"
#include "sparse/joint_front.hpp"
#include "sparse/joint_solve.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace shardsolve::sparse {

/// Each rank does its subtrees; what they leave goes to rank 0 for the small fronts above, and to
/// all ranks' slabs for the joint ones. All ranks make it, and call it, alike.
class FrontsOnDevices {
 public:
  using BlockPlace = FrontsOnDevice::BlockPlace;
  /// Enqueues the storing of blocks in memory that is 0, on rank.update().
  using Store = std::function<void(std::span<const BlockPlace>)>;

  /// As FrontsOnDevice. `placement`: of a tree of the same nodes.
  FrontsOnDevices(mesh::Rank& rank, const BlockGraph& graph, EliminationTree tree,
                  FrontPlacement placement, const JointFronts& joint_fronts, double max_bytes);

  /// Of the blocks that a rank's fronts need, each once; blocks of a joint front on all ranks that
  /// have columns of it. Returns the same on all ranks.
  std::optional<BlockPivot> factor(const Store& store);
  /// x := A^-1 x; on the host, the same on all ranks before and after.
  void solve(double* x);

  /// Bytes that the joint fronts take on a rank, at most.
  static double joint_bytes(const EliminationTree& tree, const FrontPlacement& placement,
                            std::int64_t ranks, const JointFronts& joint_fronts);

 private:
  struct Joint {
    std::int32_t node;
    JointFront front;
    MatrixView<double> slab;  ///< while it or its parent is being made
    MatrixView<double> l;     ///< the rank's columns of L
    std::unique_ptr<JointSolve<double>> solve;
  };
  /// Numbers of each rank in one piece of memory, one rank behind the other.
  struct Table {
    std::vector<std::int64_t> begin{0};
    double* on_device = nullptr;
    double* on_host = nullptr;
  };
  /// Where blocks of some fronts are in vectors.
  struct Part {
    std::int64_t first;
    std::int64_t count;
  };

  const FrontNode& shape(std::int32_t node) const {
    return tree_.nodes[static_cast<std::size_t>(node)];
  }
  FrontPlacement::Kind kind(std::int32_t node) const {
    return placement_.kind[static_cast<std::size_t>(node)];
  }
  std::int64_t owner(std::int32_t node) const {
    return placement_.rank[static_cast<std::size_t>(node)];
  }
  bool is_first() const { return rank_.index() == 0; }
  Joint* joint_of(std::int32_t node);
  MatrixView<double> whole_rest(std::int32_t node) const;
  std::vector<std::int64_t> columns_in_parent(std::int32_t child) const;
  std::vector<Part> parts_of(std::int32_t node) const;

  void make_tables();
  Table table_for(const std::vector<std::int64_t>& counts);
  void gather(Table& table);
  MatrixView<double> take(std::int64_t rows, std::int64_t columns);
  void give_back(MatrixView<double> memory);
  std::optional<BlockPivot> agree(const std::optional<BlockPivot>& mine);
  std::optional<BlockPivot> factor_joint(Joint& joint, const Store& store);
  void bring_to_top();
  void store_own_columns(const Joint& joint, const Store& store);
  void add_child(std::int32_t child, const Joint& parent);
  void solve_joint(std::vector<double>& x);
  void tell(Table& table, const std::vector<std::vector<Part>>& parts, std::vector<double>& own,
            std::vector<double>& known);

  mesh::Rank& rank_;
  const runtime::FrontKernels& kernels_;
  const BlockGraph graph_;
  EliminationTree tree_;
  FrontPlacement placement_;
  std::vector<std::int64_t> offsets_;
  Forest subtrees_;
  Forest top_;
  std::optional<FrontsOnDevice> of_subtrees_;
  std::optional<FrontsOnDevice> of_top_;  ///< on the first rank
  std::vector<Joint> joint_;
  std::vector<MatrixView<double>> spare_;

  // Of solves.
  double* x_ = nullptr;
  std::vector<std::int32_t> roots_;      ///< subtrees' that leave something, by rank
  std::vector<std::int32_t> top_roots_;  ///< likewise of the small fronts above
  Table borders_;                        ///< of roots_
  Table top_borders_;
  Table solved_;                                 ///< of subtrees and the small fronts above
  std::vector<std::vector<Part>> solved_parts_;  ///< of each rank
  Table top_solved_;
  std::vector<std::vector<Part>> top_parts_;
};

}  // namespace shardsolve::sparse
