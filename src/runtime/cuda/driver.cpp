#include "runtime/cuda/driver.hpp"

#include "runtime/cuda/check.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

namespace shardsolve::runtime::cuda {
namespace {

/// Asked of the runtime, which has loaded the driver: we do not link it.
template <class Function>
Function* find(const char* symbol) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  check(cudaGetDriverEntryPointByVersion(symbol, &address, 12000, cudaEnableDefault, &result),
        "looking for a function of the driver");
  if (result != cudaDriverEntryPointSuccess || address == nullptr) {
    throw Error(ErrorKind::device, fmt::format("the NVIDIA driver has no {}: update it", symbol));
  }
  return reinterpret_cast<Function*>(address);
}

void check_driver(CUresult status, const char* what) {
  if (status != CUDA_SUCCESS) {
    throw Error(
        status == CUDA_ERROR_OUT_OF_MEMORY ? ErrorKind::out_of_memory : ErrorKind::device,
        fmt::format("{} failed: error {} of the NVIDIA driver", what, static_cast<int>(status)));
  }
}

CUdeviceptr as_device(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

}  // namespace

void write_value(cudaStream_t stream, std::uint32_t* address, std::uint32_t value) {
  using Write = CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
  static Write* const write = find<Write>("cuStreamWriteValue32");
  check_driver(write(stream, as_device(address), value, CU_STREAM_WRITE_VALUE_DEFAULT),
               "enqueuing a mark");
}

void wait_for_value(cudaStream_t stream, std::uint32_t* address, std::uint32_t value) {
  using Wait = CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned int);
  static Wait* const wait = find<Wait>("cuStreamWaitValue32");
  check_driver(wait(stream, as_device(address), value, CU_STREAM_WAIT_VALUE_GEQ),
               "waiting for a mark");
}

std::pair<std::byte*, std::size_t> allocation_of(const void* memory) {
  using Range = CUresult(CUdeviceptr*, std::size_t*, CUdeviceptr);
  static Range* const range = find<Range>("cuMemGetAddressRange");
  CUdeviceptr base = 0;
  std::size_t size = 0;
  check_driver(range(&base, &size, as_device(memory)), "asking for an allocation");
  return {reinterpret_cast<std::byte*>(base), size};
}

}  // namespace shardsolve::runtime::cuda
