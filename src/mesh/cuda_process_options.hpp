/// What a mesh of GPUs in several processes is made from.
#pragma once

#include <shardsolve/mesh.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace shardsolve::mesh {

struct CudaProcessOptions {
  /// CUDA's numbers of the GPUs of a host, for its processes in the order of their ranks. Empty: as
  /// GpuProcesses has it.
  std::vector<int> devices;
  GpuCommunicator communicator = GpuCommunicator::automatic;
  /// For tests: several processes may have the same GPU.
  bool may_share = false;
  /// For tests: as CudaOptions has it.
  std::optional<std::uint64_t> delays;
  /// CUDA's number of this rank's GPU, where it is known; `devices` is not looked at then.
  std::optional<int> device = std::nullopt;
};

}  // namespace shardsolve::mesh
