#include "mesh/cuda_loader.hpp"

#include "mesh/plugin.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

namespace shardsolve::mesh {

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options) {
  static const Plugin library("cuda");
  if (!library.failure().empty()) {
    throw Error(ErrorKind::device,
                fmt::format("the CUDA library of shardsolve could not be loaded: {}. It needs "
                            "cuBLAS of CUDA 13 (pip: nvidia-cublas) where the system looks for "
                            "libraries, or on LD_LIBRARY_PATH",
                            library.failure()));
  }
  auto* const make = library.function<Backend*(const CudaOptions*)>("shardsolve_make_cuda_backend");
  return std::unique_ptr<Backend>(make(&options));
}

}  // namespace shardsolve::mesh
