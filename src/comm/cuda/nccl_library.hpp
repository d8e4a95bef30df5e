/// NVIDIA's NCCL, loaded when it is asked for.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

namespace shardsolve::comm::cuda {

/// The part of nccl.h that we use: the same in all releases of NCCL 2. So neither its header nor
/// its library is needed to build.
struct NcclUniqueId {
  char bytes[128];
};
using NcclComm = struct ncclComm*;

class NcclLibrary {
 public:
  /// Looks for libnccl.so.2 where the system does (LD_LIBRARY_PATH, or loaded by the program
  /// already), then where NVIDIA's wheels have it beside the Python package. Never throws.
  NcclLibrary();

  /// Why it cannot be used, and what to do; empty if it can.
  const std::string& failure() const { return failure_; }
  /// As NCCL counts it: 22809 is 2.28.9.
  int version() const { return version_; }

  /// Throws Error(communication) with NCCL's reason unless the call went well.
  void check(int result, const char* doing) const;

  static constexpr int bytes_type = 0;  // ncclInt8

  int (*get_unique_id)(NcclUniqueId*) = nullptr;
  int (*init_rank)(NcclComm*, int ranks, NcclUniqueId, int rank) = nullptr;
  int (*abort)(NcclComm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*broadcast)(const void* send, void* receive, std::size_t count, int type, int root, NcclComm,
                   cudaStream_t) = nullptr;
  int (*send)(const void*, std::size_t count, int type, int peer, NcclComm, cudaStream_t) = nullptr;
  int (*receive)(void*, std::size_t count, int type, int peer, NcclComm, cudaStream_t) = nullptr;

 private:
  template <class Function>
  void find(Function& function, const char* symbol);

  void* handle_ = nullptr;
  int version_ = 0;
  std::string failure_;
  const char* (*error_string_)(int) = nullptr;
  const char* (*last_error_)(NcclComm) = nullptr;
};

/// That of this process.
const NcclLibrary& nccl();

struct AbortNccl {
  void operator()(NcclComm comm) const { nccl().abort(comm); }
};
/// A connection that is aborted unless somebody takes it over.
using OwnedNcclComm = std::unique_ptr<ncclComm, AbortNccl>;

}  // namespace shardsolve::comm::cuda
