#include "comm/cuda/ipc_memory.hpp"

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/driver.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <cstring>

namespace shardsolve::comm::cuda {

using runtime::cuda::check;

IpcPlace export_memory(Bytes memory) {
  if (memory.size == 0) {
    return {};
  }
  const std::byte* begin = runtime::cuda::allocation_of(memory.data).first;
  IpcPlace place;
  // a copy, as the call takes no pointer to const
  std::byte* base =
      static_cast<std::byte*>(memory.data) - (static_cast<const std::byte*>(memory.data) - begin);
  const cudaError_t status = cudaIpcGetMemHandle(&place.handle, base);
  if (status == cudaErrorInvalidValue) {
    cudaGetLastError();
    throw Error(ErrorKind::invalid_argument,
                "memory of a GPU cannot be shown to other processes: take it from cudaMalloc, as "
                "make_matrix does, not from a pool or from virtual memory management");
  }
  check(status, "showing memory to other processes");
  place.offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(memory.data) - begin);
  place.size = memory.size;
  return place;
}

Bytes IpcImports::open(const IpcPlace& place) {
  if (place.size == 0) {
    return {};
  }
  Key key{};
  std::memcpy(key.data(), &place.handle, key.size());
  auto found = opened_.find(key);
  if (found == opened_.end()) {
    void* base = nullptr;
    check(cudaIpcOpenMemHandle(&base, place.handle, cudaIpcMemLazyEnablePeerAccess),
          "opening memory of another process");
    found = opened_.emplace(key, Opened{static_cast<std::byte*>(base), place.stays}).first;
  }
  return {found->second.base + place.offset, static_cast<std::size_t>(place.size)};
}

void IpcImports::close() {
  for (const auto& [handle, memory] : opened_) {
    cudaIpcCloseMemHandle(memory.base);
  }
  cudaGetLastError();  // should a process have gone
  opened_.clear();
}

void IpcImports::close_passing() {
  std::erase_if(opened_, [](const auto& one) {
    const Opened& memory = one.second;
    if (!memory.stays) {
      cudaIpcCloseMemHandle(memory.base);
    }
    return !memory.stays;
  });
  cudaGetLastError();
}

}  // namespace shardsolve::comm::cuda
