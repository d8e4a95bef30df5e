/// The CUDA backend, which is a library of its own.
#pragma once

#include "mesh/backend.hpp"
#include "mesh/cuda_options.hpp"

#include <memory>

namespace shardsolve::mesh {

/// Loads the library at the first call. Throws Error(device) if it, or a library of NVIDIA's that
/// it needs, is not there, or if the backend finds no GPU that it can use.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);

}  // namespace shardsolve::mesh
