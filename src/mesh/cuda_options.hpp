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
  /// One GPU alone: the thread that makes a call enqueues the work, and its current device is that
  /// GPU afterwards.
  bool in_caller = false;
  /// For tests: the ranks in the order of the ring, in place of the one that suits the links.
  /// Results must not depend on it.
  std::vector<std::int64_t> ring;
};

}  // namespace shardsolve::mesh
