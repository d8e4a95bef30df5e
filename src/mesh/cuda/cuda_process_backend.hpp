/// Ranks that are processes, each with a GPU of its own.
#pragma once

#include "comm/cuda/ipc_trial.hpp"
#include "comm/cuda/peer_group.hpp"
#include "comm/process_group.hpp"
#include "comm/topology.hpp"
#include "mesh/backend.hpp"
#include "mesh/cuda_process_options.hpp"
#include "mesh/gpu_seats.hpp"
#include "runtime/cuda/cholesky_device_kernels.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardsolve::mesh::cuda {

class CudaProcessBackend final : public Backend {
 public:
  /// All processes make it together. Throws, the same in all, as Mesh::mpi_cuda().
  CudaProcessBackend(std::unique_ptr<comm::Transport> transport, const CudaProcessOptions& options);
  CudaProcessBackend(const CudaProcessBackend&) = delete;
  CudaProcessBackend& operator=(const CudaProcessBackend&) = delete;
  ~CudaProcessBackend() override;

  std::int64_t ranks() const override { return processes_->ranks(); }
  comm::ProcessGroup* processes() override { return &*processes_; }
  Memory memory() const override { return Memory::device; }
  std::unique_ptr<runtime::Device> make_device(std::int64_t rank, runtime::Pulse& pulse) override;
  std::unique_ptr<comm::Communicator> make_communicator(const comm::Pulses& pulses,
                                                        std::int64_t rank) override;
  std::vector<std::unique_lock<std::mutex>> keep_others_away() override;
  std::int64_t available_memory() const override;
  /// The same as for as many GPUs of one process: so are the bits.
  std::int64_t default_tile(std::int64_t n, Dtype dtype, Routine routine) const override;
  /// Of the own GPU; processes with others would choose other tiles, which is refused.
  std::string device_kind() const override;
  std::int64_t largest_tile() const override {
    return runtime::cuda::CholeskyDeviceKernels<double>::largest_tile;
  }

 private:
  /// By CUDA IPC or NCCL.
  void connect(comm::Transport& transport, const std::vector<GpuSeat>& seats,
               GpuCommunicator asked);

  int device_ = 0;
  std::optional<std::uint64_t> delays_;
  std::int64_t sharers_ = 1;  // processes with this GPU
  std::optional<comm::Topology> topology_;
  comm::cuda::IpcTrial ipc_;
  std::optional<comm::ProcessGroup> processes_;
  std::unique_ptr<comm::cuda::PeerGroup> peers_;  // by IPC; null by NCCL
};

}  // namespace shardsolve::mesh::cuda
