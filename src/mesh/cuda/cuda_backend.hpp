/// Ranks that are GPUs of this process.
#pragma once

#include "comm/cuda/thread_peers.hpp"
#include "comm/topology.hpp"
#include "mesh/backend.hpp"
#include "mesh/cuda_options.hpp"
#include "runtime/cuda/cholesky_device_kernels.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace shardsolve::mesh::cuda {

/// How many GPUs this process sees. Throws Error(device) if there is none that this build can use.
int usable_devices();
/// As Backend::keep_others_away() for meshes of this process on these GPUs.
std::vector<std::unique_lock<std::mutex>> keep_others_from(const std::set<int>& devices);
/// Bytes that are free on the GPU.
std::int64_t free_memory(int device);
/// CUDA's name of the GPU: "NVIDIA H200".
std::string gpu_name(int device);

class CudaBackend final : public Backend {
 public:
  /// Throws Error(device) with the reason if there is no driver, it is too old or a GPU is missing.
  explicit CudaBackend(CudaOptions options);

  std::int64_t ranks() const override { return static_cast<std::int64_t>(options_.devices.size()); }
  bool runs_in_caller() const override { return options_.in_caller; }
  Memory memory() const override { return Memory::device; }
  std::unique_ptr<runtime::Device> make_device(std::int64_t rank, runtime::Pulse& pulse) override;
  std::unique_ptr<comm::Communicator> make_communicator(const comm::Pulses& pulses,
                                                        std::int64_t rank) override;
  std::vector<std::unique_lock<std::mutex>> keep_others_away() override {
    return keep_others_from({options_.devices.begin(), options_.devices.end()});
  }
  std::int64_t available_memory() const override;
  std::int64_t default_tile(std::int64_t n, Dtype dtype, Routine routine) const override;
  std::string device_kind() const override;
  std::int64_t largest_tile() const override {
    return runtime::cuda::CholeskyDeviceKernels<double>::largest_tile;
  }

 private:
  CudaOptions options_;
  comm::Topology topology_;
  std::unique_ptr<comm::cuda::ThreadPeers> group_;
};

}  // namespace shardsolve::mesh::cuda
