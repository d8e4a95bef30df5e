/// Communication between GPUs of one machine: copy engines move, marks in streams order.
#pragma once

#include "comm/cuda/peer_group.hpp"
#include "comm/exchange_communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::comm::cuda {

/// One rank's end. Every operation reads the other ranks' memory; where GPUs do not reach each
/// other the driver takes the copies through the host.
class PeerCommunicator final : public ExchangeCommunicator {
 public:
  PeerCommunicator(PeerGroup& group, std::int64_t rank)
      : ExchangeCommunicator(static_cast<std::int64_t>(group.ranks()), rank), group_(group) {}

  std::unique_ptr<Window> make_window(Bytes memory) override;
  std::unique_ptr<PeerMemory> make_peer_memory(Bytes memory) override;
  bool reaches_peers() const override { return group_.direct(); }
  Bytes make_workspace(std::size_t bytes) override { return group_.make_workspace(rank(), bytes); }
  Bytes workspace() const override { return group_.workspace(); }
  void begin_call() override;
  void end_call() override { group_.end_call(); }
  void give_up() override { group_.give_up(); }

 private:
  /// As one piece of work; what the queue holds next finds everything taken.
  void enqueue(runtime::Queue& queue, const char* operation, Pieces pieces) override;
  /// Offers send[r] to every r and takes receive[r] from every r.
  void exchange(runtime::Queue& queue, const char* operation, const std::vector<Bytes>& send,
                const std::vector<Bytes>& receive);

  PeerGroup& group_;
  std::size_t windows_made_ = 0;
};

}  // namespace shardsolve::comm::cuda
