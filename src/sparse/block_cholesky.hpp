/// Cholesky's factor of a symmetric matrix of dense blocks, front by front.
#pragma once

#include "sparse/block_graph.hpp"
#include "sparse/elimination_tree.hpp"
#include "sparse/joint_front.hpp"
#include "sparse/workers.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace shardsolve::sparse {

/// A pivot that was not positive.
struct BlockPivot {
  std::int32_t block = 0;
  std::int64_t column = 0;  ///< of the block
};

/// L with P A P^H = L L^H, the order P that of an elimination tree. Multifrontal (Duff and Reid,
/// ACM TOMS 9, 1983): a front is assembled from the matrix's blocks and what its children leave,
/// its own columns are factored by dense kernels, and the rest is left to its parent. Workers that
/// share memory share a large front by pieces, and get the same bits whoever does the work. Of
/// processes all take part in it by the distributed dense factorisation, whose bits depend on their
/// number.
template <Scalar T>
class BlockCholesky {
 public:
  /// Adds block (row, column) of the Hermitian matrix to `target`, of sizes[row] rows and
  /// sizes[column] columns; any of the two may come first, and of a diagonal block the lower
  /// triangle counts. Called from several threads, once for each pair.
  using AddBlock = std::function<void(std::int32_t row, std::int32_t column, MatrixView<T> target)>;

  /// Keeps no reference to the graph.
  BlockCholesky(const BlockGraph& graph, EliminationTree tree);

  /// Returns the pivot at which it stopped, if one was not positive; then there is no factor. Of
  /// several processes each has the fronts that it does and its slabs of the joint ones: on CPUs as
  /// spread_fronts() has them. It adds the blocks of its own fronts alone, and of its columns of
  /// joint ones.
  std::optional<BlockPivot> factor(const AddBlock& add, const Workers& workers = {});
  /// b := A^-1 b; blocks in the order of the graph, one under the other. The same workers as those
  /// that have factored.
  void solve(MatrixView<T> b, const Workers& workers = {}) const;

  const EliminationTree& tree() const { return tree_; }
  std::int64_t columns() const { return offsets_.back(); }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  struct Front {
    std::unique_ptr<T[], Free>
        panel;  ///< front() x own: L's columns, from the diagonal on; or a slab
    std::unique_ptr<T[], Free> rest;  ///< outer x outer, lower triangle: for the parent
    std::optional<JointFront> joint;
    std::vector<std::int64_t> block_begin;   ///< first columns in the front: own, border, the end
    std::vector<std::int64_t> parent_place;  ///< of each border block, its column in the parent
    std::int64_t failed_column = -1;
  };
  /// Which fronts one worker does alone, subtrees of them, and the fronts above. Workers that share
  /// memory share each of these by pieces; of processes one does each small one, and all are joint
  /// above those.
  struct Schedule {
    std::vector<std::vector<std::int32_t>> alone;  ///< nodes of each piece of work, ascending
    std::vector<std::int64_t> process_of_piece;    ///< who does it
    std::vector<std::vector<std::int32_t>> above;  ///< one list after the other
    std::vector<std::int32_t> joint;               ///< ascending
    std::vector<std::int64_t> process;             ///< of each node not joint
    std::vector<char> is_alone;                    ///< of each node
  };

  /// Not written yet.
  static std::unique_ptr<T[], Free> room(std::int64_t count);
  Schedule make_schedule(const Workers& workers) const;
  Schedule of_subtrees(const Workers& workers) const;
  Schedule of_processes(const Workers& workers) const;
  bool eliminate(std::int32_t node, const AddBlock& add, const ForEach& each);
  void assemble_columns(std::int32_t node, std::int64_t block, const AddBlock& add);
  void factor_columns(std::int32_t node, const ForEach& each);
  void factor_piece(std::int64_t piece, const AddBlock& add);
  void bring_rests(const std::vector<std::int32_t>& nodes, const Workers& workers);
  void share_above(const std::vector<std::int32_t>& nodes, const Workers& workers,
                   const std::function<void(std::int32_t node)>& work,
                   const std::function<void(std::int32_t node, Packet&)>& tell) const;
  void tell_rest(std::int32_t node, Packet& packet);
  void tell_solution(const std::vector<std::int32_t>& nodes, MatrixView<T> b, Packet& packet) const;
  std::optional<BlockPivot> failure() const;
  void substitute_forward(std::int32_t node, MatrixView<T> b,
                          std::vector<std::vector<T>>& borders) const;
  void substitute_back(std::int32_t node, MatrixView<T> b) const;
  std::vector<T> gathered(std::int32_t node, MatrixView<T> b,
                          std::vector<std::vector<T>>& borders) const;

  /// Whether the front above is none that one worker does alone.
  bool leaves_to_others(std::int32_t node) const {
    const std::int32_t parent = shape(node).parent;
    return parent >= 0 && schedule_.is_alone[static_cast<std::size_t>(parent)] == 0;
  }
  // Of joint fronts, by a rank program.
  bool leaves_to_joint(std::int32_t node) const {
    return shape(node).parent >= 0 && front(shape(node).parent).joint.has_value();
  }
  void factor_jointly(std::int32_t node, const AddBlock& add, mesh::Rank& rank);
  void assemble_own_columns(std::int32_t node, const AddBlock& add, mesh::Rank& rank);
  void add_rest_of(std::int32_t child, mesh::Rank& rank);
  void keep_own_columns(std::int32_t node, std::int64_t rank);
  void solve_jointly(MatrixView<T> b, std::vector<std::vector<T>>& borders, mesh::Rank& rank) const;
  std::vector<std::int64_t> parent_columns(std::int32_t node) const;

  const FrontNode& shape(std::int32_t node) const {
    return tree_.nodes[static_cast<std::size_t>(node)];
  }
  Front& front(std::int32_t node) { return fronts_[static_cast<std::size_t>(node)]; }
  const Front& front(std::int32_t node) const { return fronts_[static_cast<std::size_t>(node)]; }
  MatrixView<T> panel(std::int32_t node) const {
    return {front(node).panel.get(), shape(node).front(), shape(node).own};
  }
  MatrixView<T> rest(std::int32_t node) const {
    return {front(node).rest.get(), shape(node).outer, shape(node).outer};
  }
  std::int32_t block_at(std::int32_t node, std::int64_t index) const;

  EliminationTree tree_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::vector<std::int32_t>> neighbours_;
  std::vector<Front> fronts_;
  Schedule schedule_;
};

}  // namespace shardsolve::sparse
