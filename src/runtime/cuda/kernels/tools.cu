/// A value stored, and a wait.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/stream_tools.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

__global__ void store_value(std::int64_t* target, std::int64_t value) {
  target[threadIdx.x] = value;
}

__device__ std::int64_t nanoseconds_now() {
  std::int64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void spin(std::int64_t nanoseconds) {
  const std::int64_t begin = nanoseconds_now();
  while (nanoseconds_now() - begin < nanoseconds) {
    __nanosleep(500);
  }
}

}  // namespace

void store(cudaStream_t stream, std::int64_t* target, std::int64_t value, std::int64_t count) {
  launch(stream, &store_value, 1, {dim3(static_cast<unsigned>(count))}, target, value);
}

void delay(cudaStream_t stream, std::int64_t nanoseconds) {
  launch(stream, &spin, 1, {dim3(1)}, nanoseconds);
}

}  // namespace shardsolve::runtime::cuda
