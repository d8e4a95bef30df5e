/// The links between GPUs of this process.
#pragma once

#include "comm/topology.hpp"

#include <vector>

namespace shardsolve::comm::cuda {

/// Lets the GPUs with these numbers of CUDA's read each other's memory wherever they can, and says
/// what they do that over; where they cannot, copies go through the host. A GPU may appear several
/// times. Bandwidths are nominal.
Topology connect_gpus(const std::vector<int>& gpus);

/// The same without letting them: nothing is made on any of them.
Topology look_at_gpus(const std::vector<int>& gpus);

/// As connect_gpus() with the bandwidth of copies, one pair of GPUs at a time: 64 MB from memory of
/// one to memory of the other, the best of three runs; for a GPU and itself, what it copies. Takes
/// 128 MB of each GPU, and some 5 s for 8 GPUs whose copies all go through the host.
Topology measure_gpus(const std::vector<int>& gpus);

}  // namespace shardsolve::comm::cuda
