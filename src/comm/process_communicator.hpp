/// Communication between ranks that are processes.
#pragma once

#include "comm/host_board.hpp"
#include "comm/host_communicator.hpp"
#include "comm/host_peers.hpp"
#include "comm/process_group.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace shardsolve::comm {

/// The end of the one rank of this process. Data goes by messages; windows are read in place where
/// all processes are on one host and open each other's memory.
class ProcessCommunicator final : public HostCommunicator {
 public:
  /// `pulses`: of all ranks; `board`: see make_host_board().
  ProcessCommunicator(ProcessGroup& group, const Pulses& pulses, std::unique_ptr<HostBoard> board);

  /// To every other host it goes once: see BroadcastWays.
  void broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) override;
  std::unique_ptr<Window> make_window(Bytes memory) override;
  Bytes make_workspace(std::size_t bytes) override;
  Bytes workspace() const override;
  void begin_call() override;
  void end_call() override;

 private:
  /// This rank's part in the broadcasts of one root.
  struct Relay {
    std::int64_t source = 0;
    std::vector<std::int64_t> readers;
  };

  void exchange(const char* operation, const std::vector<Bytes>& send,
                const std::vector<Bytes>& receive) override {
    group_.exchange(operation, send, receive);
  }

  ProcessGroup& group_;
  std::optional<HostPeers> peers_;  // where memory is shared
  std::vector<Relay> relays_;       // one a root
};

}  // namespace shardsolve::comm
