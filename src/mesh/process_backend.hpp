/// Ranks that are processes, each with its share of the CPU.
#pragma once

#include "comm/host_board.hpp"
#include "comm/process_communicator.hpp"
#include "comm/process_group.hpp"
#include "mesh/cpu_backend.hpp"

#include <shardsolve/plan.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace shardsolve::mesh {

class ProcessBackend : public CpuBackend {
 public:
  /// All processes make it together.
  explicit ProcessBackend(std::unique_ptr<comm::Transport> transport)
      : board_(comm::make_host_board(*transport)), processes_(std::move(transport)) {}

  std::int64_t ranks() const override { return processes_.ranks(); }
  comm::ProcessGroup* processes() override { return &processes_; }
  std::unique_ptr<comm::Communicator> make_communicator(const comm::Pulses& pulses,
                                                        std::int64_t) override {
    return std::make_unique<comm::ProcessCommunicator>(processes_, pulses, std::move(board_));
  }
  std::int64_t available_memory() const override {
    const std::vector<std::int64_t>& hosts = processes_.hosts();
    const std::int64_t own = hosts[static_cast<std::size_t>(processes_.rank())];
    return available_host_memory() / std::count(hosts.begin(), hosts.end(), own);
  }

 private:
  std::unique_ptr<comm::HostBoard> board_;  // until there is a communicator
  comm::ProcessGroup processes_;
};

}  // namespace shardsolve::mesh
