/// The least-squares problem of all boxes: a matrix of orthonormal blocks that share rows.
#pragma once

#include "fbpinn/border.hpp"
#include "fbpinn/numbers.hpp"
#include "fbpinn/orthonormal_block.hpp"
#include "fbpinn/process_boxes.hpp"
#include "sparse/block_cholesky.hpp"
#include "sparse/block_graph.hpp"

#include <shardsolve/fbpinn_boxes.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {

/// Which rows each box has a part in.
struct RowLists {
  std::int64_t rows = 0;
  std::vector<std::int64_t> begin;  ///< of each box's slots; boxes + 1
  Numbers<std::int32_t> row;        ///< of each slot, ascending in each box
  std::vector<std::int64_t> by_row_begin;
  Numbers<std::int32_t> by_row;  ///< slots by row and then box

  std::int64_t boxes() const { return static_cast<std::int64_t>(begin.size()) - 1; }
  std::int64_t slots() const { return static_cast<std::int64_t>(row.size()); }
  std::span<const std::int32_t> rows_of(std::int64_t box) const {
    return std::span(row).subspan(
        static_cast<std::size_t>(begin[static_cast<std::size_t>(box)]),
        static_cast<std::size_t>(begin[static_cast<std::size_t>(box) + 1] -
                                 begin[static_cast<std::size_t>(box)]));
  }
};

/// Boxes that share a row are neighbours; `sizes` columns each.
sparse::BlockGraph graph_of(const Boxes& boxes, const RowLists& lists,
                            std::vector<std::int64_t> sizes,
                            const sparse::ForEach& each = sparse::one_by_one);

/// minimise ||Q y + C z - b|| for Q of orthonormal blocks, each on the rows of its box. How it is
/// solved is the same wherever the blocks lie; what takes the time is done there.
class BlockSystem {
 public:
  /// The lists must outlive it.
  explicit BlockSystem(const RowLists& lists) : lists_(lists) {}
  virtual ~BlockSystem() = default;
  BlockSystem(const BlockSystem&) = delete;
  BlockSystem& operator=(const BlockSystem&) = delete;

  /// Columns of each box.
  virtual std::vector<std::int64_t> ranks() const = 0;
  /// Q y; y has the boxes' parts one after the other, from `offsets` on.
  virtual std::vector<double> multiply(const std::vector<std::int64_t>& offsets,
                                       const std::vector<double>& y,
                                       const sparse::Workers& workers) const = 0;
  /// Q^T r.
  virtual std::vector<double> multiply_adjoint(const std::vector<std::int64_t>& offsets,
                                               const std::vector<double>& r,
                                               const sparse::Workers& workers) const = 0;
  /// The weights of the boxes' columns before they were made orthonormal, those of all boxes one
  /// after the other; 0 for columns left out.
  virtual std::vector<double> weights_of(const std::vector<std::int64_t>& offsets,
                                         const std::vector<double>& y,
                                         const sparse::Workers& workers) const = 0;

  struct Solution {
    std::vector<double> y;
    std::vector<double> z;
    std::int64_t border_rank = 0;
    /// Border::deviations(); none without a factor: they would be those for fixed networks.
    std::vector<double> border_deviations;
    std::vector<double> residual;  ///< b - Q y - C z
    /// ||(Q, Q_c)^T r|| / ||r||, as ||Q|| >= 1; Q_c orthonormal columns beside Q of C's range.
    double certificate = 0.0;
    double condition = 0.0;  ///< of Q
    double shift = 0.0;
    int refinements = 0;
    int cg_steps = 0;         ///< that refinement needed beside, as it came to no end
    double gain = 0.0;        ///< what a further one would take of ||r||^2: 0 where that is little
    bool is_limited = false;  ///< they came to their limit
    double factor_seconds = 0.0;
    double solve_seconds = 0.0;
    std::optional<sparse::BlockPivot> failure;  ///< then there is nothing else
  };
  /// `border`: C, of as many rows as b has; it may have no columns.
  Solution solve(const sparse::BlockGraph& graph, sparse::EliminationTree tree,
                 const std::vector<double>& b, MatrixView<const double> border,
                 double border_tolerance, const sparse::Workers& workers) const;
  /// The same without a factor, by conjugate gradients, until the certificate is `tolerance`.
  Solution solve_by_cg(const sparse::BlockGraph& graph, const std::vector<double>& b,
                       MatrixView<const double> border, double border_tolerance, double tolerance,
                       int max_steps, const sparse::Workers& workers) const;

  /// A factor of the Gram matrix Q^T Q.
  class Gram {
   public:
    virtual ~Gram() = default;
    /// Of Q^T Q + shift I. The pivot that was not positive, if there is one.
    virtual std::optional<sparse::BlockPivot> factor(double shift) = 0;
    /// b := (Q^T Q + shift I)^-1 b.
    virtual void solve(MatrixView<double> b) const = 0;
  };

 protected:
  /// May keep references to this and the workers.
  virtual std::unique_ptr<Gram> make_gram(const sparse::BlockGraph& graph,
                                          sparse::EliminationTree tree,
                                          const sparse::Workers& workers) const = 0;
  const RowLists& lists() const { return lists_; }

 private:
  /// Conjugate gradients with the factor, where refinement alone does not do: G is then so near to
  /// singular that its factor is one of a matrix beside it, or the rows differ so much in size that
  /// a small gradient says nothing of the loss.
  void polish(const std::vector<std::int64_t>& offsets, const std::vector<double>& b,
              const Border& border,
              const std::function<std::vector<double>(std::vector<double>)>& solved,
              const sparse::Workers& workers, Solution& solution, double& gradient) const;

  const RowLists& lists_;
};

/// In memory of the host; of processes each has the columns of some boxes.
class BlocksOnHost final : public BlockSystem {
 public:
  /// Makes the columns of box after box, each by its doer.
  using MakeBlock = std::function<OrthonormalBlock(std::int64_t box)>;

  BlocksOnHost(const RowLists& lists, ProcessBoxes boxes)
      : BlockSystem(lists),
        boxes_(std::move(boxes)),
        blocks_(static_cast<std::size_t>(lists.boxes())) {}

  /// Afterwards the doers have them, and all know how many columns of each box are kept.
  void make(const MakeBlock& make_block, const sparse::Workers& workers);
  /// From doers to others who are to keep them; they do the products from now on.
  void bring_to(ProcessBoxes boxes, const sparse::Workers& workers);
  /// Bytes of columns that this process has now, and has had at most.
  std::int64_t bytes() const { return bytes_; }
  std::int64_t most_bytes() const { return most_bytes_; }

  /// Adds block (i, j) of Q^T Q, of two boxes whose columns are here.
  void add_gram(std::int32_t i, std::int32_t j, MatrixView<double> target) const;

  std::vector<std::int64_t> ranks() const override;
  std::vector<double> multiply(const std::vector<std::int64_t>& offsets,
                               const std::vector<double>& y,
                               const sparse::Workers& workers) const override;
  std::vector<double> multiply_adjoint(const std::vector<std::int64_t>& offsets,
                                       const std::vector<double>& r,
                                       const sparse::Workers& workers) const override;
  std::vector<double> weights_of(const std::vector<std::int64_t>& offsets,
                                 const std::vector<double>& y,
                                 const sparse::Workers& workers) const override;

 protected:
  std::unique_ptr<Gram> make_gram(const sparse::BlockGraph& graph, sparse::EliminationTree tree,
                                  const sparse::Workers& workers) const override;

 private:
  OrthonormalBlock& block(std::int64_t box) { return blocks_[static_cast<std::size_t>(box)]; }
  const OrthonormalBlock& block(std::int64_t box) const {
    return blocks_[static_cast<std::size_t>(box)];
  }
  void grow_by(std::int64_t bytes);

  ProcessBoxes boxes_;
  std::vector<OrthonormalBlock> blocks_;  ///< of boxes that are elsewhere their shapes
  std::int64_t bytes_ = 0;
  std::int64_t most_bytes_ = 0;
};

}  // namespace shardsolve::fbpinn
