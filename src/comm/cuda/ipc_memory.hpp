/// Memory of GPUs that other processes of the machine reach: CUDA IPC.
#pragma once

#include "comm/communicator.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

namespace shardsolve::comm::cuda {

/// Where a piece of memory lies, for other processes.
struct IpcPlace {
  cudaIpcMemHandle_t handle{};  // of the allocation
  std::uint64_t offset = 0;     // in it
  std::uint64_t size = 0;
  bool stays = false;  // allocated until all have agreed that it goes: may be kept open
};

/// Of memory that cudaMalloc has given. Throws Error(invalid_argument) for other memory.
IpcPlace export_memory(Bytes memory);

/// What this process has opened of others. The GPU that is current when it opens reaches it.
class IpcImports {
 public:
  IpcImports() = default;
  IpcImports(const IpcImports&) = delete;
  IpcImports& operator=(const IpcImports&) = delete;
  ~IpcImports() { close(); }

  /// Opens an allocation once, until it is closed. Throws Error(device).
  Bytes open(const IpcPlace& place);
  void close();
  /// The same of those that do not stay.
  void close_passing();

 private:
  using Key = std::array<char, sizeof(cudaIpcMemHandle_t)>;
  struct Opened {
    std::byte* base;
    bool stays;
  };

  std::map<Key, Opened> opened_;
};

}  // namespace shardsolve::comm::cuda
