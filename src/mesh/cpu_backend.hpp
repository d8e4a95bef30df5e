/// What all meshes of shares of the CPU have in common.
#pragma once

#include "mesh/backend.hpp"
#include "mesh/device_kind.hpp"
#include "runtime/host/host_device.hpp"

#include <shardsolve/plan.hpp>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

namespace shardsolve::mesh {

class CpuBackend : public Backend {
 public:
  Memory memory() const override { return Memory::host; }
  std::unique_ptr<runtime::Device> make_device(std::int64_t, runtime::Pulse& pulse) override {
    return std::make_unique<runtime::host::HostDevice>(pulse);
  }
  /// The same for ranks of one process and of several: so are the bits.
  std::int64_t default_tile(std::int64_t n, Dtype dtype, Routine /*routine*/) const override {
    return shardsolve::default_tile(n, ranks(), dtype);
  }
  std::string device_kind() const override { return host_kind(); }
  std::int64_t largest_tile() const override { return std::numeric_limits<std::int64_t>::max(); }
};

}  // namespace shardsolve::mesh
