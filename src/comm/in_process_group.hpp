/// What a rank knows of the others: their pulses, and how it waits for one. Ranks of one process
/// also find each other's data here.
#pragma once

#include "runtime/host/one_way_counter.hpp"
#include "runtime/pulse.hpp"

#include <shardsolve/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace shardsolve::comm {

class InProcessGroup;

/// One rank's wait for another: how it finds out that there is nothing left to wait for. For
/// whoever waits, that rank's pulse says so while this lives.
class Watch {
 public:
  Watch(const InProcessGroup& group, std::int64_t waiter, const char* operation)
      : group_(group), waiter_(waiter), operation_(operation) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  /// To be called now and then while rank `peer` is waited for. Throws Abandoned if the call has
  /// failed, SilentRank if the rank that is really awaited has been silent.
  void look(std::int64_t peer);
  /// The same without a throw for a call that has failed.
  void look_for_silence(std::int64_t peer);
  /// Throws SilentRank.
  [[noreturn]] void report(std::int64_t silent) const;

 private:
  using Clock = std::chrono::steady_clock;

  const InProcessGroup& group_;
  std::int64_t waiter_;
  const char* operation_;
  std::int64_t awaited_ = -1;
  std::uint64_t beats_ = 0;
  Clock::time_point last_sign_;
};

/// Error(communication): a rank has been silent.
class SilentRank : public Error {
 public:
  SilentRank(std::int64_t rank, const std::string& message)
      : Error(ErrorKind::communication, message), rank_(rank) {}
  std::int64_t rank() const { return rank_; }

 private:
  std::int64_t rank_;
};

/// A channel from each rank to each, and windows.
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
  /// Only while no rank communicates: forgets what the last call left, finished or not.
  void reset();

  /// Waits until `counter` has reached `target`, which rank `peer` sees to. Throws as Watch::look.
  void wait(const runtime::host::OneWayCounter& counter, std::uint32_t target, std::int64_t waiter,
            std::int64_t peer, const char* operation) const;

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

  /// What the ranks share of one window.
  struct SharedWindow {
    explicit SharedWindow(std::size_t ranks) : members(ranks), released(ranks * ranks) {}

    /// One rank's buffer and what it has published.
    struct Member {
      runtime::host::OneWayCounter joined;
      std::byte* base = nullptr;
      runtime::host::OneWayCounter published;
    };
    /// How many publications of `root` rank `reader` has released.
    runtime::host::OneWayCounter& released_by(std::size_t reader, std::size_t root) {
      return released[root * members.size() + reader];
    }

    std::vector<Member> members;
    std::vector<runtime::host::OneWayCounter> released;
  };
  /// The window number `index` of this call, made by the first rank that asks.
  SharedWindow& shared_window(std::size_t index);

 private:
  std::vector<runtime::Pulse*> pulses_;
  std::vector<Channel> channels_;
  std::mutex mutex_;  // guards shared_windows_
  std::vector<std::unique_ptr<SharedWindow>> shared_windows_;
  std::chrono::duration<double> silence_limit_ = std::chrono::seconds(300);
};

}  // namespace shardsolve::comm
