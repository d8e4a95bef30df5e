/// What communicators between CPU ranks share: every operation is one exchange.
#pragma once

#include "comm/communicator.hpp"
#include "comm/traced_messages.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::comm {

/// Turns each operation into pieces to send and to receive, straight from whom has them to who
/// needs them, and enqueues their exchange.
class HostCommunicator : public Communicator {
 public:
  HostCommunicator(std::int64_t ranks, std::int64_t rank)
      : ranks_(ranks), rank_(rank), messages_(ranks, rank) {}

  void broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) override;
  void all_gather(runtime::Queue& queue, std::vector<Bytes> pieces) final;
  void gather(runtime::Queue& queue, Bytes data, std::vector<Bytes> pieces,
              std::int64_t root) final;
  void all_to_all(runtime::Queue& queue, std::vector<Bytes> send, std::vector<Bytes> receive) final;

  void begin_call() override { messages_.begin_call(); }

 protected:
  std::int64_t ranks() const { return ranks_; }
  std::int64_t rank() const { return rank_; }

  /// Pieces of no bytes do not take part, nor do the own ones.
  void enqueue(runtime::Queue& queue, const char* operation, std::vector<Bytes> send,
               std::vector<Bytes> receive);
  std::vector<Bytes> nothing() const {
    return std::vector<Bytes>(static_cast<std::size_t>(ranks_));
  }

 private:
  /// Runs on the queue: sends send[r] to every r, takes receive[r] from every r, and returns when
  /// all that was sent has been taken. Null pieces do not take part; the own ones are null.
  virtual void exchange(const char* operation, const std::vector<Bytes>& send,
                        const std::vector<Bytes>& receive) = 0;

  std::int64_t ranks_;
  std::int64_t rank_;
  ExchangeMessages messages_;
};

}  // namespace shardsolve::comm
