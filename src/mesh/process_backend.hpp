/// Ranks that are processes, each with its share of the CPU.
#pragma once

#include "comm/host_board.hpp"
#include "comm/process_communicator.hpp"
#include "comm/process_group.hpp"
#include "mesh/backend.hpp"
#include "mesh/device_kind.hpp"
#include "runtime/host/host_device.hpp"

#include <shardsolve/plan.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::mesh {

class ProcessBackend final : public Backend {
 public:
  /// All processes make it together.
  explicit ProcessBackend(std::unique_ptr<comm::Transport> transport)
      : board_(comm::make_host_board(*transport)), processes_(std::move(transport)) {}

  std::int64_t ranks() const override { return processes_.ranks(); }
  comm::ProcessGroup* processes() override { return &processes_; }
  Memory memory() const override { return Memory::host; }
  std::unique_ptr<runtime::Device> make_device(std::int64_t, runtime::Pulse& pulse) override {
    return std::make_unique<runtime::host::HostDevice>(pulse);
  }
  std::unique_ptr<comm::Communicator> make_communicator(comm::InProcessGroup& group,
                                                        std::int64_t) override {
    return std::make_unique<comm::ProcessCommunicator>(processes_, group, std::move(board_));
  }
  std::int64_t available_memory() const override {
    const std::vector<std::int64_t>& hosts = processes_.hosts();
    const std::int64_t own = hosts[static_cast<std::size_t>(processes_.rank())];
    return available_host_memory() / std::count(hosts.begin(), hosts.end(), own);
  }
  /// The same as for as many ranks in one process: so are the bits.
  std::int64_t default_tile(std::int64_t n, Dtype dtype) const override {
    return shardsolve::default_tile(n, ranks(), dtype);
  }
  std::string device_kind() const override { return host_kind(); }
  std::int64_t largest_tile() const override { return std::numeric_limits<std::int64_t>::max(); }

 private:
  std::unique_ptr<comm::HostBoard> board_;  // until there is a communicator
  comm::ProcessGroup processes_;
};

}  // namespace shardsolve::mesh
