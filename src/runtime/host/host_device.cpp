#include "runtime/host/host_device.hpp"

#include "core/host_memory.hpp"
#include "runtime/host/blas.hpp"
#include "runtime/host/host_queue.hpp"
#include "runtime/host/in_caller.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace shardsolve::runtime::host {

const KernelSource& host_kernels() {
  static const auto& kernels = *new KernelTable<HostKernelSets>;
  return kernels;
}

HostDevice::HostDevice(Pulse& pulse, RunsIn runs_in) : pulse_(pulse), runs_in_(runs_in) {
  blas::use_one_thread();
}

std::unique_ptr<Queue> HostDevice::make_queue(const std::string& name, Priority /*priority*/) {
  return std::make_unique<HostQueue>(name, pulse_, runs_in_);
}

std::unique_ptr<Event> HostDevice::make_event() { return std::make_unique<HostEvent>(); }

Buffer HostDevice::allocate(std::size_t bytes) {
  auto memory = core::allocate_host_memory(bytes);
  if (!memory) {
    throw Error(ErrorKind::out_of_memory,
                fmt::format("could not allocate {} bytes of host memory: there is no more, or a "
                            "limit on addresses (ulimit -v) is reached",
                            bytes));
  }
  return {std::move(memory), bytes};
}

void HostDevice::require_device_memory(const void*, Memory kind, const char* what) const {
  if (kind != Memory::host) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} lies in memory of GPUs; CPU devices compute in host memory. Use a "
                            "mesh of these GPUs, or copy it (device_memory.hpp)",
                            what));
  }
}

}  // namespace shardsolve::runtime::host
