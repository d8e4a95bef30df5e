/// Ranks that are shares of the CPU.
#pragma once

#include "comm/in_process.hpp"
#include "mesh/cpu_backend.hpp"
#include "runtime/host/host_device.hpp"

#include <shardsolve/plan.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace shardsolve::mesh {

class HostBackend : public CpuBackend {
 public:
  using Windows = comm::InProcess::Windows;
  explicit HostBackend(std::int64_t ranks, Windows windows = Windows::in_place)
      : ranks_(ranks), windows_(windows) {}

  std::int64_t ranks() const override { return ranks_; }
  std::unique_ptr<comm::Communicator> make_communicator(const comm::Pulses& pulses,
                                                        std::int64_t rank) override {
    if (!group_) {
      group_.emplace(pulses);
    }
    return std::make_unique<comm::InProcess>(*group_, rank, windows_);
  }
  std::int64_t available_memory() const override { return available_host_memory() / ranks_; }

 private:
  std::int64_t ranks_;
  Windows windows_;
  std::optional<comm::InProcessGroup> group_;
};

/// One rank that has no threads: it computes in the caller's.
class SerialBackend final : public HostBackend {
 public:
  SerialBackend() : HostBackend(1) {}

  bool runs_in_caller() const override { return true; }
  std::unique_ptr<runtime::Device> make_device(std::int64_t, runtime::Pulse& pulse) override {
    return std::make_unique<runtime::host::HostDevice>(pulse, runtime::host::RunsIn::caller);
  }
};

}  // namespace shardsolve::mesh
