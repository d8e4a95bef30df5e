/// A step of Levenberg and Marquardt's method.
#pragma once

#include "fbpinn/block_system.hpp"
#include "fbpinn/process_boxes.hpp"
#include "sparse/elimination_tree.hpp"
#include "sparse/workers.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace shardsolve::fbpinn {

/// A Jacobian of one block of columns for each box, on the rows of the box, and of a dense border.
/// Of processes each has the blocks that it keeps.
struct BlockJacobian {
  const RowLists* lists = nullptr;
  ProcessBoxes boxes;                       ///< who has which blocks
  std::int64_t columns = 0;                 ///< of each box
  std::vector<std::vector<double>> blocks;  ///< rows of the box x columns, column-major
  std::int64_t border_columns = 0;
  std::vector<double> border;  ///< all rows x border_columns, column-major

  std::int64_t parameters() const { return lists->boxes() * columns + border_columns; }
  /// Parameters: those of the boxes one after the other, then the border's.
  std::vector<double> norms(const sparse::Workers& workers) const;
  /// With the rows multiplied by `weights`.
  std::vector<double> norms(const std::vector<double>& weights,
                            const sparse::Workers& workers) const;
  void divide_columns(const std::vector<double>& scales);
  std::vector<double> multiply_adjoint(const std::vector<double>& r,
                                       const sparse::Workers& workers) const;
};

/// Where the equations of a step are solved: J^T J + damping, as large as the parameters are many,
/// block-sparse; or J J^T + damping, as large as the rows are many, dense.
enum class StepSpace : std::uint8_t { parameters, samples };

/// What makes ||J y + r||^2 + damping ||y||^2 least: one factorisation for each damping. For all
/// Jacobians of one shape.
class DampedSteps {
 public:
  /// `graph`: of the boxes, as many columns each as blocks have. `lists` must outlive it.
  DampedSteps(const RowLists& lists, const sparse::BlockGraph& graph, std::int64_t border_columns);

  StepSpace cheaper() const;
  double bytes(StepSpace space) const;
  /// Who is to have which blocks of the Jacobian.
  ProcessBoxes boxes_for(StepSpace space, const sparse::Workers& workers) const;
  /// None if a pivot was not positive: damping is too small for the precision. The same bits
  /// whoever the workers are.
  std::optional<std::vector<double>> step(StepSpace space, const BlockJacobian& jacobian,
                                          double damping, const std::vector<double>& r,
                                          const sparse::Workers& workers) const;

 private:
  std::optional<std::vector<double>> step_of_parameters(const BlockJacobian& jacobian,
                                                        double damping,
                                                        const std::vector<double>& r,
                                                        const sparse::Workers& workers) const;

  const RowLists& lists_;
  std::int64_t border_columns_;
  sparse::BlockGraph graph_;  // the border is a block more
  sparse::EliminationTree tree_;
  sparse::FactorCost cost_;
};

}  // namespace shardsolve::fbpinn
