/// An order of points that is good for caches.
#pragma once

#include <cstdint>
#include <vector>

namespace shardsolve::fbpinn {

/// Points along a curve that stays near itself (Morton's), if the order they are given in jumps
/// about; empty if it does not, as that of a grid, or if there are so few that caches hold them
/// all. result[i] is the number of the i-th point.
std::vector<std::int32_t> local_order(const double* points, std::int64_t count, int axes);

/// values := values[order[0]], values[order[1]], ..., `width` numbers each.
void reorder(const std::vector<std::int32_t>& order, std::int64_t width,
             std::vector<double>& values);

}  // namespace shardsolve::fbpinn
