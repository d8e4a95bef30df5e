/// What training does on GPUs: as on CPUs, by kernels.
#pragma once

#include "fbpinn/networks.hpp"
#include "fbpinn/numbers.hpp"
#include "mesh/rank.hpp"
#include "sparse/workers.hpp"

#include <shardsolve/fbpinn_boxes.hpp>
#include <shardsolve/jet_set.hpp>

#include <functional>
#include <span>

namespace shardsolve::fbpinn {

/// Runs `work` on the ranks of the mesh of devices that the workers have. `bytes`: of device memory
/// that it takes on a rank, about. Of several processes it is one piece, which they open once.
void on_device(const sparse::Workers& workers, double bytes,
               const std::function<void(mesh::Rank&)>& work);

/// Jets of the sum of all boxes' networks: jets_of_networks, on the devices. Not of the caller's
/// own units.
Numbers<double> jets_on_device(const Boxes& boxes, const Mlp& mlp, const JetSet& set, int fields,
                               const PointsInBoxes& at, std::span<const double> hidden_weights,
                               std::span<const double> last_layer, const sparse::Workers& workers);

}  // namespace shardsolve::fbpinn
