// What libshardsolve looks up for calls that each device makes by itself: cuda_loader.cpp.

#include "mesh/cuda_loader.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/cuda/cuda_device.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/cuda/fixed_dot.hpp"
#include "runtime/cuda/small_systems.hpp"

#define SHARDSOLVE_LOOKED_UP extern "C" __attribute__((visibility("default")))

SHARDSOLVE_LOOKED_UP void shardsolve_cuda_adopt(const shardsolve::mesh::CudaStream* stream,
                                                const shardsolve::mesh::CudaScratch* scratch,
                                                const shardsolve::mesh::CudaStream::Work* work) {
  using namespace shardsolve::runtime;
  static const auto& kernels = *new KernelTable<cuda::CudaKernelSets>;
  const cuda::CurrentDevice scope(stream->device);
  Pulse pulse;  // which nobody looks at
  cuda::CudaQueue queue("caller", pulse,
                        cuda::AdoptedStream{.device = stream->device,
                                            .stream = static_cast<cudaStream_t>(stream->handle),
                                            .scratch = scratch->data,
                                            .scratch_bytes = scratch->bytes});
  (*work)(kernels, queue);
}

SHARDSOLVE_LOOKED_UP void shardsolve_cuda_fixed_dot(int device, void* stream,
                                                    const shardsolve::runtime::DotCall* call) {
  using namespace shardsolve::runtime::cuda;
  const CurrentDevice scope(device);
  dot::enqueue(static_cast<cudaStream_t>(stream), *call);
  check(cudaGetLastError(), "a dot product");
}

SHARDSOLVE_LOOKED_UP void shardsolve_cuda_small_systems(
    int device, void* stream, const shardsolve::runtime::SmallSystems* call) {
  using namespace shardsolve::runtime::cuda;
  const CurrentDevice scope(device);
  small::enqueue(static_cast<cudaStream_t>(stream), *call);
  check(cudaGetLastError(), "small systems");
}
