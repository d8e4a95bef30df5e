/// The messages of a rank as traces have them: numbers that both ends count alike.
#pragma once

#include "comm/communicator.hpp"

#include <shardsolve/trace.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::comm {

/// Of exchanges: those of a call from one rank to another are counted. A rank asks for all of a
/// traced call, in the order in which it enqueues them, and for none of another.
class ExchangeMessages {
 public:
  ExchangeMessages(std::int64_t ranks, std::int64_t rank)
      : rank_(rank),
        sent_(static_cast<std::size_t>(ranks), 0),
        received_(static_cast<std::size_t>(ranks), 0) {}

  void begin_call() {
    sent_.assign(sent_.size(), 0);
    received_.assign(received_.size(), 0);
  }
  /// Both ends of the next exchange: send[r] goes to rank r, receive[r] comes from there. Pieces of
  /// no bytes and the own ones are no messages.
  std::vector<TraceMessage> next(const std::vector<Bytes>& send, const std::vector<Bytes>& receive);

 private:
  std::int64_t rank_;
  std::vector<std::uint64_t> sent_;
  std::vector<std::uint64_t> received_;
};

/// What a rank tells another of a part of a window: that it is there, or not needed any more.
enum class WindowNotice : std::uint8_t { published, released };

/// The number of that message, beside those of exchanges, which are small. `window`: the number of
/// the window in its call; `count`: of the parts of `root`.
std::uint64_t window_number(WindowNotice notice, std::size_t window, std::int64_t root,
                            std::uint32_t count);

}  // namespace shardsolve::comm
