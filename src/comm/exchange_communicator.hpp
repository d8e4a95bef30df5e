/// What communicators share that make every operation one exchange.
#pragma once

#include "comm/communicator.hpp"
#include "comm/traced_messages.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::comm {

/// Turns each operation into pieces to send and to receive, which go straight from the rank that
/// has them to each that needs them.
class ExchangeCommunicator : public Communicator {
 public:
  ExchangeCommunicator(std::int64_t ranks, std::int64_t rank)
      : ranks_(ranks), rank_(rank), messages_(ranks, rank) {}

  void broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) override;
  void all_gather(runtime::Queue& queue, std::vector<Bytes> pieces) final;
  void gather(runtime::Queue& queue, Bytes data, std::vector<Bytes> pieces,
              std::int64_t root) final;
  void all_to_all(runtime::Queue& queue, std::vector<Bytes> send, std::vector<Bytes> receive) final;

  void begin_call() override { messages_.begin_call(); }

 protected:
  /// What a rank sends to each, and receives from each.
  struct Pieces {
    std::vector<Bytes> send;
    std::vector<Bytes> receive;
  };

  std::int64_t ranks() const { return ranks_; }
  std::int64_t rank() const { return rank_; }
  std::vector<Bytes> nothing() const {
    return std::vector<Bytes>(static_cast<std::size_t>(ranks_));
  }
  /// From the root to each.
  Pieces pieces_of_broadcast(Bytes data, std::int64_t root) const;
  /// What a trace is to say of the next exchange, which this counts.
  std::vector<TraceMessage> trace(const Pieces& pieces) {
    return messages_.next(pieces.send, pieces.receive);
  }

  /// Enqueues it. Pieces of no bytes do not take part, nor do the own ones.
  virtual void enqueue(runtime::Queue& queue, const char* operation, Pieces pieces) = 0;

 private:
  std::int64_t ranks_;
  std::int64_t rank_;
  ExchangeMessages messages_;
};

}  // namespace shardsolve::comm
