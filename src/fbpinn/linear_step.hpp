/// The change of all last layers that makes a linearised residual least.
#pragma once

#include "fbpinn/derivatives.hpp"
#include "fbpinn/training_geometry.hpp"
#include "sparse/elimination_tree.hpp"

#include <shardsolve/fbpinn.hpp>
#include <shardsolve/fbpinn_boxes.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace shardsolve::fbpinn {

/// By what a linear problem is solved.
struct LinearSolver {
  LinearMethod method = LinearMethod::automatic;
  double tolerance = 1e-10;  ///< of conjugate gradients: the certificate at which they end
  int max_steps = 10000;     ///< of them
};

/// Bytes that a linear step takes, and that there are.
struct LinearStepMemory {
  double features = 0.0;        ///< and all else but the factor
  double features_by_cg = 0.0;  ///< likewise, if there is none
  double factor = 0.0;
  double available = 0.0;
};

/// minimise ||residual + M change + C coefficients||, where row (e, p) of M is the sum over fields
/// f and derivatives d of derivatives[p][e][f][d] times the jets of window times unit at p, for
/// each box around p, and C a dense border.
struct LinearStep {
  std::vector<double> change;                  ///< boxes x fields x Mlp::features()
  std::vector<double> coefficients;            ///< the change of each
  std::int64_t coefficients_determined = 0;    ///< directions that are not left out
  std::vector<double> coefficient_deviations;  ///< as in Trained; none without a factor
  std::vector<double> residual;                ///< -(residual + M change + C coefficients), by row
  std::vector<std::int64_t> rank;              ///< columns kept of each box
  double certificate = 0.0;                    ///< as in Trained
  double condition = 0.0;
  double shift = 0.0;
  int refinements = 0;
  int cg_steps = 0;          ///< of conjugate gradients
  bool is_by_cg = false;     ///< no factor was made
  double gain = 0.0;         ///< what a further step would take of the loss, if it is known
  bool is_limited = false;   ///< by max_steps, or steps take nothing more of a loss that has it
  bool is_factored = false;  ///< else there is no change
  /// That the columns of boxes have taken of the host's memory at most, in this process.
  std::int64_t feature_bytes = 0;
  sparse::FactorCost dense;
  sparse::FactorCost band;
  sparse::FactorCost nested_dissection;
  double rows_seconds = 0.0;
  double order_seconds = 0.0;
  double factor_seconds = 0.0;
  double solve_seconds = 0.0;
};

/// `hidden_weights`: Mlp::weights() numbers a box. `derivatives`: geometry.derivatives numbers, on
/// the host or, if the units are not the caller's own, in the memory of the workers' devices.
/// `by_coefficients`: C, geometry.rows numbers for each coefficient, column-major; may be empty.
/// `residual`: geometry.rows numbers. The same bits whoever the workers are.
LinearStep linear_step(const TrainingGeometry& geometry, const Mlp& mlp,
                       std::span<const double> hidden_weights, const Derivatives& derivatives,
                       std::span<const double> by_coefficients, std::span<const double> residual,
                       double rank_tolerance, const sparse::Workers& workers,
                       const LinearSolver& solver = {});

}  // namespace shardsolve::fbpinn
