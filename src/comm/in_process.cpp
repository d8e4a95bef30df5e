#include "comm/in_process.hpp"

#include "comm/copy_window.hpp"
#include "comm/in_process_window.hpp"
#include "runtime/host/host_queue.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace shardsolve::comm {
namespace {

/// The rank that somebody who waits for `rank` really waits for: the end of the chain of ranks that
/// wait for one another. A circle ends where it closes.
std::int64_t end_of_chain(const InProcessGroup& group, std::int64_t rank) {
  for (std::int64_t hop = 0; hop < group.ranks(); ++hop) {
    const std::int64_t next = group.pulse(rank).waiting_for();
    if (next < 0) {
      return rank;
    }
    rank = next;
  }
  return rank;
}

[[noreturn]] void report_silence(const InProcessGroup& group, std::int64_t waiter,
                                 std::int64_t silent, const char* operation) {
  const runtime::Pulse& pulse = group.pulse(silent);
  throw Error(
      ErrorKind::communication,
      fmt::format("rank {} has been silent for more than {:g} s; it was last seen at step {} "
                  "in '{}', while rank {} waited in '{}' of step {}. A longer limit helps if "
                  "its device is only slow",
                  silent, group.silence_limit().count(), pulse.step(), pulse.operation(), waiter,
                  operation, group.pulse(waiter).step()));
}

std::vector<Bytes> nothing(const InProcessGroup& group) {
  return std::vector<Bytes>(static_cast<std::size_t>(group.ranks()));
}

}  // namespace

InProcessGroup::InProcessGroup(std::vector<runtime::Pulse*> pulses, Windows windows)
    : pulses_(std::move(pulses)), channels_(pulses_.size() * pulses_.size()), windows_(windows) {}

void InProcessGroup::reset() {
  for (Channel& channel : channels_) {
    channel.posted.reset();
    channel.taken.reset();
    channel.sends = 0;
    channel.receives = 0;
  }
  shared_windows_.clear();
}

InProcessGroup::SharedWindow& InProcessGroup::shared_window(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (index == shared_windows_.size()) {
    shared_windows_.push_back(std::make_unique<SharedWindow>(pulses_.size()));
  }
  return *shared_windows_[index];
}

void InProcessGroup::wait(const runtime::host::OneWayCounter& counter, std::uint32_t target,
                          std::int64_t waiter, std::int64_t peer, const char* operation) const {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds look_around(20);
  if (counter.wait_for(target, look_around)) {
    return;
  }
  runtime::Pulse& own = pulse(waiter);
  own.set_waiting_for(peer);
  std::int64_t awaited = -1;
  std::uint64_t beats = 0;
  auto last_sign = Clock::now();
  while (!counter.wait_for(target, look_around)) {
    if (own.failed()) {
      throw runtime::Abandoned{};
    }
    const std::int64_t now_awaited = end_of_chain(*this, peer);
    const std::uint64_t now_beats = pulse(now_awaited).beats();
    if (now_awaited != awaited || now_beats != beats) {
      awaited = now_awaited;
      beats = now_beats;
      last_sign = Clock::now();
    } else if (Clock::now() - last_sign > silence_limit_) {
      report_silence(*this, waiter, awaited, operation);
    }
  }
  own.set_waiting_for(-1);
}

void InProcess::broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) {
  auto send = nothing(group_);
  auto receive = nothing(group_);
  if (rank_ == root) {
    send.assign(send.size(), data);
  } else {
    receive[static_cast<std::size_t>(root)] = data;
  }
  enqueue(queue, "broadcast", std::move(send), std::move(receive));
}

void InProcess::all_gather(runtime::Queue& queue, std::vector<Bytes> pieces) {
  std::vector<Bytes> send(pieces.size(), pieces[static_cast<std::size_t>(rank_)]);
  enqueue(queue, "all_gather", std::move(send), std::move(pieces));
}

void InProcess::gather(runtime::Queue& queue, Bytes data, std::vector<Bytes> pieces,
                       std::int64_t root) {
  auto send = nothing(group_);
  if (rank_ == root) {
    enqueue(queue, "gather", std::move(send), std::move(pieces));
  } else {
    send[static_cast<std::size_t>(root)] = data;
    enqueue(queue, "gather", std::move(send), nothing(group_));
  }
}

void InProcess::all_to_all(runtime::Queue& queue, std::vector<Bytes> send,
                           std::vector<Bytes> receive) {
  enqueue(queue, "all_to_all", std::move(send), std::move(receive));
}

std::unique_ptr<Window> InProcess::make_window(Bytes memory) {
  if (group_.windows() == InProcessGroup::Windows::copied) {
    return std::make_unique<CopyWindow>(*this, group_.ranks(), rank_, memory);
  }
  return std::make_unique<InProcessWindow>(group_, group_.shared_window(windows_made_++), rank_,
                                           memory);
}

void InProcess::enqueue(runtime::Queue& queue, const char* operation, std::vector<Bytes> send,
                        std::vector<Bytes> receive) {
  send[static_cast<std::size_t>(rank_)] = {};
  receive[static_cast<std::size_t>(rank_)] = {};
  double bytes = 0.0;
  for (const Bytes& piece : receive) {
    bytes += static_cast<double>(piece.size);
  }
  static_cast<runtime::host::HostQueue&>(queue).launch(
      {.name = operation, .bytes = bytes},
      [this, operation, send = std::move(send), receive = std::move(receive)] {
        exchange(operation, send, receive);
      });
}

void InProcess::exchange(const char* operation, const std::vector<Bytes>& send,
                         const std::vector<Bytes>& receive) {
  const std::int64_t ranks = group_.ranks();
  for (std::int64_t to = 0; to < ranks; ++to) {
    const Bytes& piece = send[static_cast<std::size_t>(to)];
    if (piece.size > 0) {
      InProcessGroup::Channel& channel = group_.channel(rank_, to);
      channel.data = piece.data;
      channel.size = piece.size;
      channel.operation = operation;
      channel.posted.store(++channel.sends);
    }
  }
  for (std::int64_t distance = 1; distance < ranks; ++distance) {
    const std::int64_t from = (rank_ + distance) % ranks;  // not all at the same source at once
    const Bytes& piece = receive[static_cast<std::size_t>(from)];
    if (piece.size > 0) {
      InProcessGroup::Channel& channel = group_.channel(from, rank_);
      group_.wait(channel.posted, ++channel.receives, rank_, from, operation);
      if (channel.size != piece.size || std::strcmp(channel.operation, operation) != 0) {
        throw Error(
            ErrorKind::internal,
            fmt::format("rank {} expects {} bytes by {} from rank {}, which sent {} by {}: "
                        "this is a bug of shardsolve, please report it",
                        rank_, piece.size, operation, from, channel.size, channel.operation));
      }
      std::memcpy(piece.data, channel.data, piece.size);
      channel.taken.store(channel.receives);
    }
  }
  for (std::int64_t to = 0; to < ranks; ++to) {
    if (send[static_cast<std::size_t>(to)].size > 0) {
      InProcessGroup::Channel& channel = group_.channel(rank_, to);
      group_.wait(channel.taken, channel.sends, rank_, to, operation);
    }
  }
}

}  // namespace shardsolve::comm
