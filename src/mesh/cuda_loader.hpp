/// The CUDA backend, which is a library of its own.
#pragma once

#include "comm/topology.hpp"
#include "comm/transport.hpp"
#include "mesh/backend.hpp"
#include "mesh/cuda_facts.hpp"
#include "mesh/cuda_options.hpp"
#include "mesh/cuda_process_options.hpp"
#include "runtime/kernel_set.hpp"
#include "runtime/queue.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace shardsolve::mesh {

/// Loads the library at the first call. Throws Error(device) if it, or a library of NVIDIA's that
/// it needs, is not there, or if the backend finds no GPU that it can use.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);

/// The same for ranks that are the processes of the transport, which all call this.
std::unique_ptr<Backend> make_cuda_process_backend(std::unique_ptr<comm::Transport> transport,
                                                   const CudaProcessOptions& options);

/// The major version of the CUDA that JAX uses in this process: our library for the same one is
/// taken. Said before anything here is called for the first time; without effect afterwards.
void set_cuda_of_jax(int major);

/// Throws Error(device) as make_cuda_backend does if the library is not there.
void require_cuda_library();

/// The links between GPUs of this process, by CUDA's numbers. Bandwidths are nominal, or those of
/// copies between each two of them in turn (some seconds where these go through the host, 128 MB on
/// each GPU). Throws Error(device) as make_cuda_backend does, and Error(out_of_memory).
comm::Topology cuda_topology(const std::vector<int>& devices);
comm::Topology measure_cuda_topology(const std::vector<int>& devices);

/// What there is; never throws. A GPU that can be used has a context of this process afterwards.
CudaFacts cuda_facts();

/// Memory of a GPU that kernels may use meanwhile.
struct CudaScratch {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// A stream of the program that calls us. Needs the CUDA library.
struct CudaStream {
  int device = 0;  ///< CUDA's number of its GPU
  void* handle = nullptr;

  using Work = std::function<void(const runtime::KernelSource&, runtime::Queue&)>;
  /// Calls `work` with the GPU's kernels, which stay, and the stream as a queue, which does not.
  /// Waits for nothing and takes no memory of the GPU, as the stream may be under capture: kernels
  /// have this scratch, and no cuBLAS.
  void adopt(const Work& work, const CudaScratch& scratch = {}) const;
  /// Enqueues a copy between memory of GPUs, or of a GPU and the host. The host's memory may be
  /// changed afterwards, what is copied to it is there after synchronize().
  void copy(void* target, const void* source, std::size_t bytes) const;
  /// Waits until all that is enqueued has been done.
  void synchronize() const;
  /// Whether it has been done.
  bool is_done() const;
};

}  // namespace shardsolve::mesh
