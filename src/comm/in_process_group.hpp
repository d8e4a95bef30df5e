/// Where ranks of one process find each other's data.
#pragma once

#include "comm/pulses.hpp"
#include "runtime/host/one_way_counter.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace shardsolve::comm {

/// A channel from each rank to each, and windows.
class InProcessGroup {
 public:
  /// `pulses`: how waiting ranks tell a slow one from a silent one.
  explicit InProcessGroup(const Pulses& pulses);

  const Pulses& pulses() const { return pulses_; }
  std::int64_t ranks() const { return pulses_.ranks(); }
  /// Called for every rank while none of them communicates: forgets what the last call left,
  /// finished or not.
  void begin_call(std::int64_t rank);

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
  const Pulses& pulses_;
  std::vector<Channel> channels_;
  std::mutex mutex_;  // guards shared_windows_
  std::vector<std::unique_ptr<SharedWindow>> shared_windows_;
};

}  // namespace shardsolve::comm
