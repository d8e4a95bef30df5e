/// A communicator with a call that goes wrong.
#pragma once

#include "comm/communicator.hpp"
#include "tests/support/faults.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::testing {

/// Passes every call on to another communicator, and its windows and peer memory to that one's; a
/// call that is struck fails or comes late.
class FaultyCommunicator final : public comm::Communicator {
 public:
  FaultyCommunicator(std::unique_ptr<comm::Communicator> inner, Faults& faults, std::int64_t rank)
      : inner_(std::move(inner)), faults_(faults), rank_(rank) {}

  void broadcast(runtime::Queue& queue, comm::Bytes data, std::int64_t root) override;
  void all_gather(runtime::Queue& queue, std::vector<comm::Bytes> pieces) override;
  void gather(runtime::Queue& queue, comm::Bytes data, std::vector<comm::Bytes> pieces,
              std::int64_t root) override;
  void all_to_all(runtime::Queue& queue, std::vector<comm::Bytes> send,
                  std::vector<comm::Bytes> receive) override;
  std::unique_ptr<comm::Window> make_window(comm::Bytes memory) override;
  std::unique_ptr<comm::PeerMemory> make_peer_memory(comm::Bytes memory) override;
  bool reaches_peers() const override { return inner_->reaches_peers(); }
  comm::Bytes make_workspace(std::size_t bytes) override { return inner_->make_workspace(bytes); }
  comm::Bytes workspace() const override { return inner_->workspace(); }
  void begin_call() override { inner_->begin_call(); }
  void end_call() override { inner_->end_call(); }
  void give_up() override { inner_->give_up(); }

 private:
  friend class FaultyWindow;
  friend class FaultyPeerMemory;
  /// Before a call that is enqueued on `queue`.
  void meet(runtime::Queue& queue, const char* operation);
  /// Before a call of the host.
  void meet();
  /// When the turn of the call has come.
  void suffer(Fault fault) const;

  std::unique_ptr<comm::Communicator> inner_;
  Faults& faults_;
  std::int64_t rank_;
};

}  // namespace shardsolve::testing
