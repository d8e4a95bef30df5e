/// Which rank has which boxes, and what ranks tell each other about points in boxes of several.
#pragma once

#include <shardsolve/export.hpp>
#include <shardsolve/fbpinn_boxes.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace shardsolve::fbpinn {

/// What work and messages take. `shardsolve doctor` prints the last two for the links there are.
struct PlacementCosts {
  double seconds_per_pair = 2e-7;  ///< of a point and a box around it, each step
  double bytes_per_point = 48;     ///< of a partial jet
  double latency = 1e-5;           ///< seconds a message
  double seconds_per_byte = 1e-10;
};

/// Boxes given to ranks.
struct Placement {
  std::string name;                 ///< "straight along axis 0", ...
  std::vector<std::int32_t> owner;  ///< the rank of each box
  std::vector<std::int64_t> boxes;  ///< of each rank
  std::vector<std::int64_t> pairs;  ///< of each rank
  std::vector<std::int64_t> sent;   ///< points whose partial sums each rank sends, a step
  double seconds = 0.0;             ///< of the slowest rank, a step

  /// Pairs of the fullest rank over those of the mean one.
  double load() const;
};

/// The owner of a point is the rank of the box whose center is nearest, in half widths; the first
/// of equals. Every other rank with a box around the point sends its partial sum to it.
struct ExchangePlan {
  std::vector<std::int32_t> owner;  ///< of each point
  /// sends[r][s]: points, ascending, whose partial sums rank r sends to rank s; none for s = r.
  std::vector<std::vector<std::vector<std::int32_t>>> sends;
};

/// `points`: axes numbers each; `owner`: a rank from 0 on for each box. Throws
/// Error(invalid_argument) if lengths do not fit, a rank is out of range, or a point lies in no
/// box.
SHARDSOLVE_EXPORT ExchangePlan exchange_plan(const Boxes& boxes, std::span<const double> points,
                                             std::span<const std::int32_t> owner,
                                             std::int64_t ranks);
/// What a given placement comes to. Throws likewise.
SHARDSOLVE_EXPORT Placement evaluated(const Boxes& boxes, std::span<const double> points,
                                      std::vector<std::int32_t> owner, std::int64_t ranks,
                                      const PlacementCosts& costs = {});
/// All that were looked at, the best first: cuts along each axis between whole layers of boxes
/// (straight) and between any two boxes (with a jog), and halves of halves. Ranks may have no box
/// if there are more than boxes. Throws likewise, and unless ranks are positive.
SHARDSOLVE_EXPORT std::vector<Placement> placements(const Boxes& boxes,
                                                    std::span<const double> points,
                                                    std::int64_t ranks,
                                                    const PlacementCosts& costs = {});
/// A line for each, the chosen one first.
SHARDSOLVE_EXPORT std::string text_of(const std::vector<Placement>& all);

}  // namespace shardsolve::fbpinn
