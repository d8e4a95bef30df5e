/// The data that processes send each other, and what a call that failed leaves of it.
#pragma once

#include "comm/pulses.hpp"
#include "comm/transport.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace shardsolve::comm {

/// Messages of one process to and from the others, one call after another. One thread at a time.
class DataMessages {
 public:
  explicit DataMessages(Transport& transport);

  /// Processes that differ in `traced` do not take each other's messages, which have other tags:
  /// they find out by notes.
  void begin_call(bool traced);
  /// Messages lie in memory that lives until the call has settled, or that `keeps` holds: after a
  /// throw they may still be on their way.
  struct Bodies {
    const std::vector<Bytes>& send;  ///< to each rank
    const std::vector<Bytes>& receive;
    std::shared_ptr<const void> keeps;
  };
  /// Sends and receives as ExchangeCommunicator has it. Throws as Watch::look, or what the
  /// transport throws; `on_loss` is told before of the rank that is silent or cannot be reached.
  void exchange(const Pulses& pulses, const char* operation, const Bodies& bodies,
                const std::function<void(std::int64_t rank)>& on_loss);
  /// Messages of this call so far.
  std::uint64_t sent_to(std::int64_t rank) const { return sent_[static_cast<std::size_t>(rank)]; }

  /// What another process says of a call that has ended.
  struct Sent {
    std::int64_t from = 0;
    std::uint64_t messages = 0;  ///< to this process
    bool traced = false;         ///< as it has begun the call
  };
  /// After a failure: waits until no message of this call can arrive in the next one and none uses
  /// memory any longer. `sent`: how many messages each other process has sent here. Calls
  /// `show_life` meanwhile. False if the time did not suffice.
  bool settle(const std::vector<Sent>& sent, std::chrono::steady_clock::time_point deadline,
              const std::function<void()>& show_life);

 private:
  using Clock = std::chrono::steady_clock;

  /// A message on its way.
  struct Piece {
    std::int64_t peer = 0;
    bool is_receive = false;
    std::size_t size = 0;
    std::shared_ptr<const void> keeps;
    std::unique_ptr<Message> message;
  };

  void begin(std::vector<Piece>& pieces, const Bodies& bodies,
             const std::function<void(std::int64_t)>& on_loss);
  void complete(Piece& piece, const Pulses& pulses, const char* operation,
                const std::function<void(std::int64_t)>& on_loss);
  void keep_leftovers(std::vector<Piece> pieces);
  template <class Await>
  void drop_message(const Sent& sent, const Await& await);

  int tag(bool traced) const {
    return static_cast<int>((2 * call_ + (traced ? 1 : 0)) % Transport::tags);
  }
  Transport& transport_;
  std::uint64_t call_ = 0;
  bool traced_ = false;
  std::vector<std::uint64_t> sent_;      // in this call, by rank
  std::vector<std::uint64_t> received_;  // likewise
  std::vector<Piece> leftovers_;         // of this call; nobody waits for them any longer
};

}  // namespace shardsolve::comm
