/// Networks and points as kernels of a device take them.
#pragma once

#include "fbpinn/networks.hpp"
#include "mesh/rank.hpp"
#include "runtime/box_kernels.hpp"

#include <shardsolve/fbpinn_boxes.hpp>
#include <shardsolve/jet_set.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace shardsolve::fbpinn::devices {

template <class T>
const T* upload(mesh::Rank& rank, std::span<const T> values) {
  return rank.upload(rank.update(), values.data(), static_cast<std::int64_t>(values.size()));
}
template <class T, class Allocator>
const T* upload(mesh::Rank& rank, const std::vector<T, Allocator>& values) {
  return upload(rank, std::span<const T>(values));
}

/// The networks of some boxes, in this order.
runtime::BoxNetworks upload_networks(mesh::Rank& rank, const Boxes& boxes,
                                     std::span<const std::int32_t> which, const Mlp& mlp,
                                     const JetSet& set, int fields,
                                     std::span<const double> hidden_weights);
runtime::BoxPoints upload_points(mesh::Rank& rank, const Boxes& boxes, const PointsInBoxes& at);
std::int64_t max_points(std::span<const runtime::BoxRun> runs);
void leave_if_asked(const mesh::Rank& rank);

}  // namespace shardsolve::fbpinn::devices
