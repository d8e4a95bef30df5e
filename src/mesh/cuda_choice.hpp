/// Which of our libraries for GPUs fits: that of CUDA 13 or that of CUDA 12.
#pragma once

#include <string>
#include <vector>

namespace shardsolve::mesh {

/// What decides. Versions as CUDA counts them: 13020 is 13.2.
struct CudaSurroundings {
  int driver = 0;         ///< the newest CUDA that the driver knows; 0 if there is no driver
  std::vector<int> gpus;  ///< ten times the compute capability of each GPU that is seen
  int jax = 0;            ///< major version of the CUDA that JAX uses in this process; 0 if none
  bool has_12 = false;    ///< whether libshardsolve_cuda12.so lies beside this code
  bool has_13 = false;    ///< whether libshardsolve_cuda.so does
};

struct CudaChoice {
  int major = 0;       ///< 12 or 13; 0 if none fits
  std::string reason;  ///< why this one, or why none and what to do: a clause without a stop
};

/// JAX's CUDA decides, as one cuBLAS then serves both; without it the driver and the GPUs do, and
/// where both libraries fit, that of CUDA 13. Without a driver it is whichever is there.
CudaChoice choose_cuda(const CudaSurroundings& surroundings);

/// What the driver says, libcuda.so.1. GPUs are asked for only `with_gpus`, which starts the driver
/// in this process.
CudaSurroundings look_at_driver(bool with_gpus);

}  // namespace shardsolve::mesh
