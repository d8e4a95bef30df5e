/// The sum of all boxes' networks at many points.
#pragma once

#include "fbpinn/numbers.hpp"
#include "fbpinn/pairs.hpp"
#include "sparse/workers.hpp"

#include <shardsolve/fbpinn_boxes.hpp>
#include <shardsolve/jet_set.hpp>

#include <span>
#include <vector>

namespace shardsolve::fbpinn {

/// Points, the boxes around them, and what the windows are divided by there.
struct PointsInBoxes {
  const double* points = nullptr;
  Pairs pairs;
  Numbers<double> inverse_sums;  ///< levels x points x set.size()
};
PointsInBoxes points_in_boxes(const Boxes& boxes, const JetSet& set, const double* points,
                              std::int64_t count, std::int64_t first_number,
                              const sparse::Workers& workers);

/// Jets of the sum over boxes of window times network: points x fields x set.size() numbers. Boxes
/// are added in their order.
Numbers<double> jets_of_networks(const Boxes& boxes, const Mlp& mlp, const JetSet& set, int fields,
                                 const PointsInBoxes& at, std::span<const double> hidden_weights,
                                 std::span<const double> last_layer,
                                 const sparse::Workers& workers);

/// Pieces of many points, for each.
inline constexpr std::int64_t points_at_a_time = 2048;
template <class Work>
void each_piece_of_points(std::int64_t count, const sparse::ForEach& each, const Work& work) {
  each((count + points_at_a_time - 1) / points_at_a_time, [&](std::int64_t i) {
    const std::int64_t first = i * points_at_a_time;
    work(first, std::min(count, first + points_at_a_time));
  });
}

}  // namespace shardsolve::fbpinn
