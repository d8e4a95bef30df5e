/// Communication between ranks that are processes.
#pragma once

#include "comm/copy_window.hpp"
#include "comm/host_communicator.hpp"
#include "comm/process_group.hpp"

#include <memory>
#include <vector>

namespace shardsolve::comm {

/// The end of the one rank of this process.
class ProcessCommunicator final : public HostCommunicator {
 public:
  explicit ProcessCommunicator(ProcessGroup& group)
      : HostCommunicator(group.ranks(), group.rank()), group_(group) {}

  std::unique_ptr<Window> make_window(Bytes memory) override {
    return std::make_unique<CopyWindow>(*this, ranks(), rank(), memory);
  }

 private:
  void exchange(const char* operation, const std::vector<Bytes>& send,
                const std::vector<Bytes>& receive) override {
    group_.exchange(operation, send, receive);
  }

  ProcessGroup& group_;
};

}  // namespace shardsolve::comm
