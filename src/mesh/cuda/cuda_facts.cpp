// What doctor asks before a mesh is made: nothing here throws.

#include "mesh/cuda_facts.hpp"

#include "comm/cuda/nccl_library.hpp"

#include <cuda_runtime_api.h>

#include <array>

namespace shardsolve::mesh::cuda {
namespace {

GpuFacts facts_of(int gpu) {
  GpuFacts facts;
  cudaDeviceProp properties{};
  cudaError_t status = cudaGetDeviceProperties(&properties, gpu);
  if (status == cudaSuccess) {
    facts.name = properties.name;
    facts.major = properties.major;
    facts.minor = properties.minor;
    facts.memory = static_cast<std::int64_t>(properties.totalGlobalMem);
    std::array<char, 32> bus_id{};
    if (cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), gpu) == cudaSuccess) {
      facts.bus_id = bus_id.data();
    }
    status = cudaSetDevice(gpu);
  }
  std::size_t free = 0;
  std::size_t total = 0;
  if (status == cudaSuccess) {
    status = cudaMemGetInfo(&free, &total);
  }
  if (status == cudaSuccess) {
    facts.free_memory = static_cast<std::int64_t>(free);
  } else {
    facts.failure = cudaGetErrorString(status);
    cudaGetLastError();
  }
  return facts;
}

}  // namespace
}  // namespace shardsolve::mesh::cuda

extern "C" __attribute__((visibility("default"))) void shardsolve_cuda_facts(
    shardsolve::mesh::CudaFacts* facts) {
  facts->runtime = CUDART_VERSION;
  facts->architectures = SHARDSOLVE_CUDA_ARCHITECTURES;
  cudaDriverGetVersion(&facts->driver);
  int count = 0;
  if (facts->driver == 0 || cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return;
  }
  int current = 0;
  const bool known = cudaGetDevice(&current) == cudaSuccess;
  for (int gpu = 0; gpu < count; ++gpu) {
    facts->gpus.push_back(shardsolve::mesh::cuda::facts_of(gpu));
  }
  if (known) {
    cudaSetDevice(current);
  }
  if (count > 0) {
    facts->nccl_failure = shardsolve::comm::cuda::nccl().failure();
  }
}
