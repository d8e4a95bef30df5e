/// The rows of one box in the least-squares matrix.
#pragma once

#include "fbpinn/training_geometry.hpp"

#include <shardsolve/fbpinn_boxes.hpp>

#include <cstdint>
#include <span>

namespace shardsolve::fbpinn {

/// Features of the box at its points, as feature_rows has them: lists.rows_of(box) rows,
/// column-major, of geometry.fields * mlp.features() columns. `derivatives` and `hidden_weights` as
/// for linear_step.
void box_rows(const TrainingGeometry& geometry, const Mlp& mlp,
              std::span<const double> hidden_weights, std::span<const double> derivatives,
              std::int64_t box, double* rows);

/// Whether all are numbers.
bool are_finite(std::span<const double> values);

/// Throws Error(invalid_argument) that names the unit and the point of a box, some of whose rows
/// are not finite although the derivatives and hidden weights are.
[[noreturn]] void refuse_nonfinite_units(const TrainingGeometry& geometry, const Mlp& mlp,
                                         std::span<const double> hidden_weights,
                                         std::span<const double> derivatives, std::int64_t box);

}  // namespace shardsolve::fbpinn
