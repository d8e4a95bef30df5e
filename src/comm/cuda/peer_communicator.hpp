/// Communication between GPUs of one machine: copy engines move, marks in streams order.
#pragma once

#include "comm/communicator.hpp"
#include "comm/cuda/peer_group.hpp"
#include "comm/traced_messages.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::comm::cuda {

/// One rank's end. Every operation reads the other ranks' memory; where GPUs do not reach each
/// other the driver takes the copies through the host.
class PeerCommunicator final : public Communicator {
 public:
  PeerCommunicator(PeerGroup& group, std::int64_t rank)
      : group_(group), rank_(rank), messages_(static_cast<std::int64_t>(group.ranks()), rank) {}

  void broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) override;
  void all_gather(runtime::Queue& queue, std::vector<Bytes> pieces) override;
  void gather(runtime::Queue& queue, Bytes data, std::vector<Bytes> pieces,
              std::int64_t root) override;
  void all_to_all(runtime::Queue& queue, std::vector<Bytes> send,
                  std::vector<Bytes> receive) override;
  std::unique_ptr<Window> make_window(Bytes memory) override;
  std::unique_ptr<PeerMemory> make_peer_memory(Bytes memory) override;
  Bytes make_workspace(std::size_t bytes) override { return group_.make_workspace(rank_, bytes); }
  Bytes workspace() const override { return group_.workspace(); }
  void begin_call() override;
  void end_call() override { group_.end_call(); }
  void give_up() override { group_.give_up(); }

 private:
  /// Offers send[r] to every r and takes receive[r] from every r, as one piece of work; what the
  /// queue holds next finds everything taken. Pieces of no bytes do not take part.
  void exchange(runtime::Queue& queue, const char* operation, const std::vector<Bytes>& send,
                const std::vector<Bytes>& receive);
  void enqueue(runtime::Queue& queue, const char* operation, const std::vector<Bytes>& send,
               const std::vector<Bytes>& receive);

  PeerGroup& group_;
  std::int64_t rank_;
  std::size_t windows_made_ = 0;
  ExchangeMessages messages_;
};

}  // namespace shardsolve::comm::cuda
