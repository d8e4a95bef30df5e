/// A step of Levenberg and Marquardt's method.
#pragma once

#include "fbpinn/block_system.hpp"
#include "sparse/workers.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace shardsolve::fbpinn {

/// A Jacobian of one block of columns for each box, on the rows of the box, and of a dense border.
struct BlockJacobian {
  const RowLists* lists = nullptr;
  std::int64_t columns = 0;                 ///< of each box
  std::vector<std::vector<double>> blocks;  ///< rows of the box x columns, column-major
  std::int64_t border_columns = 0;
  std::vector<double> border;  ///< all rows x border_columns, column-major

  std::int64_t parameters() const { return lists->boxes() * columns + border_columns; }
  /// Parameters: those of the boxes one after the other, then the border's.
  std::vector<double> norms() const;
  void divide_columns(const std::vector<double>& scales);
  std::vector<double> multiply_adjoint(const std::vector<double>& r) const;
};

/// Where the equations of a step are solved: J^T J + damping, as large as the parameters are many,
/// block-sparse; or J J^T + damping, as large as the rows are many, dense.
enum class StepSpace : std::uint8_t { parameters, samples };

/// What makes ||J y + r||^2 + damping ||y||^2 least: one factorisation for each damping.
class DampedSteps {
 public:
  /// `jacobian` must outlive it. `graph`: of the boxes, columns each.
  DampedSteps(const BlockJacobian& jacobian, const sparse::BlockGraph& graph);

  const BlockJacobian& jacobian() const { return jacobian_; }
  StepSpace cheaper() const;
  double bytes(StepSpace space) const;
  /// None if a pivot was not positive: damping is too small for the precision. The same bits
  /// whoever the workers are.
  std::optional<std::vector<double>> step(StepSpace space, double damping,
                                          const std::vector<double>& r,
                                          const sparse::Workers& workers) const;

 private:
  std::optional<std::vector<double>> step_of_parameters(double damping,
                                                        const std::vector<double>& r,
                                                        const sparse::Workers& workers) const;
  std::optional<std::vector<double>> step_of_samples(double damping, const std::vector<double>& r,
                                                     const sparse::Workers& workers) const;
  void add_product(std::int32_t i, std::int32_t j, MatrixView<double> target) const;
  std::vector<double> rows_of(std::int32_t block, const std::vector<std::int32_t>& rows) const;

  const BlockJacobian& jacobian_;
  sparse::BlockGraph graph_;  // the border is a block more
  sparse::FactorCost cost_;
};

}  // namespace shardsolve::fbpinn
