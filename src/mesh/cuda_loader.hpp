/// The CUDA backend, which is a library of its own.
#pragma once

#include "mesh/backend.hpp"
#include "mesh/cuda_facts.hpp"
#include "mesh/cuda_options.hpp"

#include <cstddef>
#include <memory>

namespace shardsolve::mesh {

/// Loads the library at the first call. Throws Error(device) if it, or a library of NVIDIA's that
/// it needs, is not there, or if the backend finds no GPU that it can use.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);

/// Throws Error(device) as make_cuda_backend does if the library is not there.
void require_cuda_library();

/// What there is; never throws. A GPU that can be used has a context of this process afterwards.
CudaFacts cuda_facts();

/// A stream that is not ours: that of the program that calls us. Only where the library is there.
struct CudaStream {
  int device = 0;  ///< CUDA's number of its GPU
  void* handle = nullptr;

  /// Enqueues a copy between memory of GPUs, or of a GPU and the host. The host's memory may be
  /// changed afterwards, what is copied to it is there after synchronize().
  void copy(void* target, const void* source, std::size_t bytes) const;
  /// Waits until all that is enqueued has been done.
  void synchronize() const;
};

}  // namespace shardsolve::mesh
