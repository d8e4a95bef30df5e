/// Communication between ranks that are threads of one process.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.hpp"
#include "runtime/host/one_way_counter.hpp"
#include "runtime/pulse.hpp"

namespace shardsolve::comm {

/// What the ranks share: a channel from each to each.
class InProcessGroup {
 public:
  /// One pulse a rank: how waiting ranks tell a slow one from a silent one.
  explicit InProcessGroup(std::vector<runtime::Pulse*> pulses);

  std::int64_t ranks() const { return static_cast<std::int64_t>(pulses_.size()); }
  runtime::Pulse& pulse(std::int64_t rank) const {
    return *pulses_[static_cast<std::size_t>(rank)];
  }
  /// Only while no rank communicates.
  void set_silence_limit(std::chrono::duration<double> limit) { silence_limit_ = limit; }
  std::chrono::duration<double> silence_limit() const { return silence_limit_; }
  /// Only while no rank communicates: forgets what a failed call left half done.
  void reset();

  /// One piece at a time from one rank to another: the sender posts where it lies, the receiver
  /// copies it and says so. Both ends count alike.
  struct alignas(64) Channel {
    runtime::host::OneWayCounter posted;
    runtime::host::OneWayCounter taken;
    const void* data = nullptr;
    std::size_t size = 0;
    const char* operation = "";
    std::uint32_t sends = 0;     // sender's count
    std::uint32_t receives = 0;  // receiver's count
  };
  Channel& channel(std::int64_t from, std::int64_t to) {
    return channels_[static_cast<std::size_t>(from * ranks() + to)];
  }

 private:
  std::vector<runtime::Pulse*> pulses_;
  std::vector<Channel> channels_;
  std::chrono::duration<double> silence_limit_ = std::chrono::seconds(300);
};

/// One rank's end.
class InProcess final : public Communicator {
 public:
  InProcess(InProcessGroup& group, std::int64_t rank) : group_(group), rank_(rank) {}

  void broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) override;
  void all_gather(runtime::Queue& queue, std::vector<Bytes> pieces) override;
  void gather(runtime::Queue& queue, Bytes data, std::vector<Bytes> pieces,
              std::int64_t root) override;
  void all_to_all(runtime::Queue& queue, std::vector<Bytes> send,
                  std::vector<Bytes> receive) override;

 private:
  /// Posts send[r] to every r, takes receive[r] from every r, and returns when all that was posted
  /// has been taken. Every operation above is one of these; null pieces do not take part.
  void exchange(const char* operation, const std::vector<Bytes>& send,
                const std::vector<Bytes>& receive);
  void enqueue(runtime::Queue& queue, const char* operation, std::vector<Bytes> send,
               std::vector<Bytes> receive);
  void wait(const runtime::host::OneWayCounter& counter, std::uint32_t target, std::int64_t peer,
            const char* operation) const;

  InProcessGroup& group_;
  std::int64_t rank_;
};

}  // namespace shardsolve::comm
