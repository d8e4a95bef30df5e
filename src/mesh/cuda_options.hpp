/// What a mesh of GPUs is made from.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace shardsolve::mesh {

struct CudaOptions {
  /// CUDA's number of each rank's GPU. For tests one may appear several times.
  std::vector<int> devices;
  /// For tests: seed of random delays on the GPU in front of what is enqueued. Results must not
  /// depend on them.
  std::optional<std::uint64_t> delays;
};

}  // namespace shardsolve::mesh
