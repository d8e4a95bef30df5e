/// Communication between ranks that are processes.
#pragma once

#include "comm/copy_window.hpp"
#include "comm/host_communicator.hpp"
#include "comm/process_group.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::comm {

/// The end of the one rank of this process.
class ProcessCommunicator final : public HostCommunicator {
 public:
  explicit ProcessCommunicator(ProcessGroup& group);

  /// To every other host it goes once: see BroadcastWays.
  void broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) override;
  std::unique_ptr<Window> make_window(Bytes memory) override {
    return std::make_unique<CopyWindow>(*this, ranks(), rank(), memory);
  }

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
  std::vector<Relay> relays_;  // one a root
};

}  // namespace shardsolve::comm
