#include "runtime/host/host_device.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/host/blas.hpp"
#include "runtime/host/host_queue.hpp"

namespace shardsolve::runtime::host {

HostDevice::HostDevice(Pulse& pulse) : pulse_(pulse) { blas::use_one_thread(); }

std::unique_ptr<Queue> HostDevice::make_queue(const std::string& name) {
  return std::make_unique<HostQueue>(name, pulse_);
}

std::unique_ptr<Event> HostDevice::make_event() { return std::make_unique<HostEvent>(); }

Buffer HostDevice::allocate(std::size_t bytes) {
  constexpr std::size_t line = 128;
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + line - 1) / line * line;
  void* data = std::aligned_alloc(line, rounded);
  if (data == nullptr) {
    throw Error(ErrorKind::out_of_memory,
                fmt::format("could not allocate {} bytes of host memory", bytes));
  }
  return {data, bytes, [](void* memory) { std::free(memory); }};
}

}  // namespace shardsolve::runtime::host
