/// What a problem is at given networks: rows of a linear least-squares problem in the last layers.
#pragma once

#include "fbpinn/block_system.hpp"
#include "fbpinn/networks.hpp"

#include <shardsolve/fbpinn.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::fbpinn {

/// The points of one term among those of all, and its rows: of equation e at point p,
/// first_row + e * points + p.
struct Segment {
  const Term* term = nullptr;
  std::int64_t first_point = 0;
  std::int64_t points = 0;
  std::int64_t first_row = 0;
  std::int64_t first_factor = 0;  ///< of its derivatives
  double scale = 1.0;             ///< of its rows: weight / sqrt(points)

  int equations() const { return term->residual.equations; }
};

/// Everything that follows from points and boxes alone.
struct TrainingGeometry {
  TrainingGeometry(const Problem& problem, const sparse::ForEach& each);

  JetSet set;
  std::vector<double> points;  ///< of all terms
  std::vector<Segment> segments;
  std::int64_t rows = 0;
  std::int64_t factors = 0;  ///< derivatives of all residuals
  PointsInBoxes at;
  RowLists lists;
};

/// Scaled residuals, and their derivatives by the jets of the networks' sum.
struct PointwiseRows {
  std::vector<double> residual;     ///< by row
  std::vector<double> derivatives;  ///< by segment, point, equation, field, derivative

  double loss() const;
};

/// `v`: jets of the sum at all points. Derivatives are left out unless asked for. Throws
/// Error(invalid_argument) if a residual or derivative is not finite, unless `accept_nonfinite`.
PointwiseRows pointwise_rows(const Problem& problem, const TrainingGeometry& geometry,
                             const std::vector<double>& v, bool derivatives, bool accept_nonfinite,
                             const sparse::ForEach& each);

/// Orthonormal blocks of the rows of each box.
void make_blocks(const Problem& problem, const TrainingGeometry& geometry,
                 const std::vector<double>& hidden_weights, const std::vector<double>& derivatives,
                 double rank_tolerance, BlockSystem& system, const sparse::ForEach& each);

}  // namespace shardsolve::fbpinn
