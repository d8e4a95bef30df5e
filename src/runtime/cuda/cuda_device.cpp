#include "runtime/cuda/cuda_device.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace shardsolve::runtime::cuda {

CudaDevice::CudaDevice(int ordinal, Pulse& pulse, std::optional<std::uint64_t> delays,
                       std::size_t block)
    : ordinal_(ordinal),
      pulse_(pulse),
      delays_(delays),
      block_(block),
      failed_(allocate_host(sizeof(std::uint32_t))) {
  pulse_.keep_copy(static_cast<std::uint32_t*>(failed_.data()));
  pulse_.set_failed(false);
}

CudaDevice::~CudaDevice() { pulse_.keep_copy(nullptr); }

std::unique_ptr<Queue> CudaDevice::make_queue(const std::string& name, Priority priority) {
  QueueOptions options{.device = ordinal_,
                       .failed = static_cast<const std::uint32_t*>(failed_.data()),
                       .blas = blas_};
  if (delays_) {
    options.delays = *delays_ ^ std::hash<std::string>{}(name);
  }
  if (priority == Priority::critical_path) {
    const CurrentDevice scope(ordinal_);
    int lowest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &options.priority), "asking for priorities");
  }
  return std::make_unique<CudaQueue>(name, pulse_, options);
}

std::unique_ptr<Event> CudaDevice::make_event() {
  const CurrentDevice scope(ordinal_);
  return std::make_unique<CudaEvent>();
}

Buffer allocate(int ordinal, std::size_t bytes, std::size_t block) {
  const CurrentDevice scope(ordinal);
  void* memory = nullptr;
  const std::size_t blocks = std::max<std::size_t>((bytes + block - 1) / block, 1);
  const cudaError_t status = cudaMalloc(&memory, blocks * block);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    constexpr double gigabyte = 1e9;
    throw Error(
        ErrorKind::out_of_memory,
        fmt::format("GPU {} has {:.2f} of {:.2f} GB free, and not {:.2f} GB in one piece. "
                    "Use more GPUs, or end what else uses this one",
                    ordinal, static_cast<double>(free) / gigabyte,
                    static_cast<double>(total) / gigabyte, static_cast<double>(bytes) / gigabyte));
  }
  check(status, "allocating memory");
  return {std::shared_ptr<void>(memory, [](void* pointer) { cudaFree(pointer); }), bytes};
}

Buffer CudaDevice::allocate(std::size_t bytes) { return cuda::allocate(ordinal_, bytes, block_); }

Buffer CudaDevice::allocate_host(std::size_t bytes) {
  const CurrentDevice scope(ordinal_);
  void* memory = nullptr;
  check(cudaMallocHost(&memory, std::max<std::size_t>(bytes, 1)), "allocating pinned memory");
  return {std::shared_ptr<void>(memory, [](void* pointer) { cudaFreeHost(pointer); }), bytes};
}

void CudaDevice::adopt_thread() { check(cudaSetDevice(ordinal_), "choosing a GPU"); }

void CudaDevice::require_device_memory(const void* memory, Memory, const char* what) const {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, memory), "asking where memory lies");
  const bool managed = attributes.type == cudaMemoryTypeManaged;
  if (managed || (attributes.type == cudaMemoryTypeDevice && attributes.device == ordinal_)) {
    return;
  }
  const std::string where = attributes.type == cudaMemoryTypeDevice
                                ? fmt::format("on GPU {}", attributes.device)
                                : std::string("in host memory");
  throw Error(ErrorKind::invalid_argument,
              fmt::format("{} lies {}; memory of GPU {} is needed. Make it with make_matrix or "
                          "make_right_hand_sides and fill it with copy (device_memory.hpp)",
                          what, where, ordinal_));
}

}  // namespace shardsolve::runtime::cuda
