/// How kernels are started, and what every one of them needs.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {

/// Threads and dynamic shared memory of one block.
struct Block {
  dim3 threads;
  std::size_t shared_bytes = 0;
};

/// Enqueues `kernel` with a row of blocks, of which there may be none.
template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, void (*kernel)(Parameters...), std::int64_t blocks, Block block,
            const Arguments&... arguments) {
  if (blocks > 0) {
    kernel<<<static_cast<unsigned>(blocks), block.threads, block.shared_bytes, stream>>>(
        arguments...);
  }
}

/// Enqueues that bytes in the GPU's memory become `value`.
inline void set_bytes(cudaStream_t stream, void* memory, unsigned char value, std::size_t bytes) {
  cudaMemsetAsync(memory, value, bytes, stream);
}

inline cudaLaunchConfig_t config_of(cudaStream_t stream, std::int64_t blocks, Block block) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = block.threads;
  config.dynamicSmemBytes = block.shared_bytes;
  config.stream = stream;
  return config;
}

/// Likewise with an attribute; at least one block.
template <class... Parameters, class... Arguments>
void launch_with(const cudaLaunchAttribute& attribute, cudaStream_t stream,
                 void (*kernel)(Parameters...), std::int64_t blocks, Block block,
                 const Arguments&... arguments) {
  cudaLaunchAttribute attributes[] = {attribute};
  cudaLaunchConfig_t config = config_of(stream, blocks, block);
  config.attrs = attributes;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

/// Like launch, all blocks at the same time, so that they may wait for each other; no more of them
/// than max_together allows. CUDA calls this a cooperative launch.
template <class... Parameters, class... Arguments>
void launch_together(cudaStream_t stream, void (*kernel)(Parameters...), std::int64_t blocks,
                     Block block, const Arguments&... arguments) {
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  launch_with(together, stream, kernel, blocks, block, arguments...);
}

/// Whether the code of the kernel that runs on the current device was made for sm_90 or later.
template <class... Parameters>
bool is_for_sm_90(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
}

/// Like launch, right after another kernel in the same stream that calls begin_after_last(): blocks
/// of this one may take their multiprocessors while that one still works, and wait in
/// begin_after_last(), which this kernel has to call too before it touches memory. Code for GPUs
/// before sm_90 has no such wait: there this one starts when the other one has ended. There may be
/// no blocks. CUDA calls this programmatic dependent launch.
template <class... Parameters, class... Arguments>
void launch_early(cudaStream_t stream, void (*kernel)(Parameters...), std::int64_t blocks,
                  Block block, const Arguments&... arguments) {
  if (blocks == 0 || !is_for_sm_90(kernel)) {
    launch(stream, kernel, blocks, block, arguments...);
    return;
  }
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  launch_with(early, stream, kernel, blocks, block, arguments...);
}

/// All that was enqueued before this kernel has ended, and is seen, when this returns. From then on
/// the kernel after this one may be launched early.
inline __device__ void begin_after_last() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// Where a parameter of a kernel lies, as memory that each thread may read elsewhere. Parameters
/// read as such come through a cache for constants, which waits for each piece of them anew.
template <class Parameter>
const __device__ std::int64_t* words_of(const Parameter& parameter) {
  const auto* words = reinterpret_cast<const std::int64_t*>(&parameter);
  asm volatile("" : "+l"(words));
  return words;
}

/// Of the current device.
inline int device_attribute(cudaDeviceAttr name) {
  int device = 0;
  int value = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, name, device);
  return value;
}

/// Blocks of one multiprocessor each that the current device can run at the same time.
inline std::int64_t max_together() { return device_attribute(cudaDevAttrMultiProcessorCount); }

/// Bytes of dynamic shared memory that a block may have on the current device.
inline std::size_t max_shared() {
  return static_cast<std::size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

/// Lets `kernel` have so much dynamic shared memory on the current device. Cheap, so it is said
/// before every launch instead of remembered for each device.
template <class... Parameters>
void allow_shared(void (*kernel)(Parameters...), std::size_t bytes) {
  cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                       cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
}

/// The dynamic shared memory of the block.
template <class Contents>
__device__ Contents& dynamic_shared() {
  extern __shared__ __align__(128) float4 shared_memory[];
  return *reinterpret_cast<Contents*>(shared_memory);
}

/// Where in the shared memory of a block; what instructions of PTX take.
inline __device__ std::uint32_t shared_address(const void* place) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(place));
}

constexpr std::int64_t divide_up(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

}  // namespace shardsolve::runtime::cuda
