/// Ranks that are shares of the CPU.
#pragma once

#include "comm/in_process.hpp"
#include "mesh/backend.hpp"
#include "mesh/device_kind.hpp"
#include "runtime/host/host_device.hpp"

#include <shardsolve/plan.hpp>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

namespace shardsolve::mesh {

class HostBackend final : public Backend {
 public:
  using Windows = comm::InProcess::Windows;
  explicit HostBackend(std::int64_t ranks, Windows windows = Windows::in_place)
      : ranks_(ranks), windows_(windows) {}

  std::int64_t ranks() const override { return ranks_; }
  Memory memory() const override { return Memory::host; }
  std::unique_ptr<runtime::Device> make_device(std::int64_t, runtime::Pulse& pulse) override {
    return std::make_unique<runtime::host::HostDevice>(pulse);
  }
  std::unique_ptr<comm::Communicator> make_communicator(comm::InProcessGroup& group,
                                                        std::int64_t rank) override {
    return std::make_unique<comm::InProcess>(group, rank, windows_);
  }
  std::int64_t available_memory() const override { return available_host_memory() / ranks_; }
  std::int64_t default_tile(std::int64_t n, Dtype dtype) const override {
    return shardsolve::default_tile(n, ranks_, dtype);
  }
  std::string device_kind() const override { return host_kind(); }
  std::int64_t largest_tile() const override { return std::numeric_limits<std::int64_t>::max(); }

 private:
  std::int64_t ranks_;
  Windows windows_;
};

}  // namespace shardsolve::mesh
