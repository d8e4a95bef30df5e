/// What ranks that are GPUs of one machine share to reach each other's memory.
#pragma once

#include "comm/communicator.hpp"
#include "comm/cuda/marks.hpp"
#include "comm/pulses.hpp"
#include "comm/ring.hpp"
#include "comm/topology.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace shardsolve::comm::cuda {

/// Ranks meet on the host, in the threads that enqueue, to tell each other addresses and marks;
/// what they then enqueue waits on the GPUs alone. A thread waits only for others to have enqueued
/// what every rank enqueues, never for work to be done.
class PeerGroup {
 public:
  /// One piece at a time from one rank to another.
  struct Channel {
    std::unique_ptr<Marks> ready;      // sender's: the piece may be read
    std::unique_ptr<Marks> delivered;  // receiver's: it has been
    std::uint32_t sent = 0;            // sender's count
    std::uint32_t received = 0;        // receiver's count
  };

  /// What the ranks share of one window.
  class Window {
   public:
    virtual ~Window() = default;
    /// Brings a rank's memory; waits until the other ranks have brought theirs.
    virtual void join(std::int64_t rank, Bytes memory) = 0;
    /// The memory that a rank has brought, as this process reaches it.
    virtual std::byte* base(std::int64_t rank) const = 0;

    /// When a rank has each part of a root.
    Marks& arrivals(std::int64_t rank, std::int64_t root) const {
      return *arrivals_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(root)];
    }

   protected:
    std::vector<std::vector<std::unique_ptr<Marks>>> arrivals_;  // by rank, by root
  };
  /// Marks of a window that are different ones: many times what one message has parts.
  static constexpr std::uint32_t depth = 64;

  /// `pulses`: of all ranks; `ring`: the order in which large parts of windows go from GPU to GPU.
  PeerGroup(const Pulses& pulses, const Topology& topology, Ring ring);
  PeerGroup(const PeerGroup&) = delete;
  PeerGroup& operator=(const PeerGroup&) = delete;
  virtual ~PeerGroup() = default;

  /// Whether every rank has a GPU of its own, which reaches the memory of all others.
  bool direct() const { return direct_; }
  const Ring& ring() const { return ring_; }
  /// What copies from one rank to another go over, for traces.
  const char* link(std::int64_t from, std::int64_t to) const {
    return name(topology_.link(from, to).kind);
  }
  std::size_t ranks() const { return static_cast<std::size_t>(pulses_.ranks()); }

  /// Waits until `peer` has counted to `target`. Spins first: it is nearly always there.
  void meet(const runtime::host::OneWayCounter& counter, std::uint32_t target, std::int64_t self,
            std::int64_t peer, const char* operation) const;

  Channel& channel(std::int64_t from, std::int64_t to) {
    return channels_[static_cast<std::size_t>(from) * ranks() + static_cast<std::size_t>(to)];
  }
  /// Says where the next piece of a channel lies: before its mark is recorded.
  virtual void offer(std::int64_t from, std::int64_t to, Bytes piece) = 0;
  /// What was offered, as this process reaches it: when its mark is enqueued.
  virtual Bytes offered(std::int64_t from, std::int64_t to) = 0;

  /// The window number `index` of this call, made by the first rank that asks.
  Window& window(std::size_t index);

  /// See Communicator; of a rank of this process.
  virtual Bytes make_workspace(std::int64_t /*rank*/, std::size_t /*bytes*/) { return {}; }
  virtual Bytes workspace() const { return {}; }

  /// The number of the first mark of this call, everywhere.
  virtual std::uint32_t first() const = 0;
  /// Called for every rank of this process while none of them communicates: counts from first().
  virtual void begin_call(std::int64_t rank) = 0;
  /// A rank of this process has finished what it has enqueued in this call.
  virtual void end_call() {}
  /// The call has failed: nothing of this process may wait for ranks that are gone. Any thread.
  virtual void give_up() {}

 protected:
  const Pulses& pulses() const { return pulses_; }
  /// marks(from, to, delivered): of each channel, the sender's and the receiver's.
  template <class Make>
  void make_channels(Make marks) {
    for (std::size_t i = 0; i < channels_.size(); ++i) {
      const auto from = static_cast<std::int64_t>(i / ranks());
      const auto to = static_cast<std::int64_t>(i % ranks());
      channels_[i].ready = marks(from, to, false);
      channels_[i].delivered = marks(from, to, true);
    }
  }
  template <class Body>
  void for_each_channel(Body body) {
    for (Channel& channel : channels_) {
      body(channel);
    }
  }
  std::vector<std::unique_ptr<Window>>& windows() { return windows_; }

 private:
  /// Waits for long.
  virtual void wait(const runtime::host::OneWayCounter& counter, std::uint32_t target,
                    std::int64_t self, std::int64_t peer, const char* operation) const {
    pulses_.wait(counter, target, self, peer, operation);
  }
  virtual std::unique_ptr<Window> make_window(std::size_t index) = 0;

  const Pulses& pulses_;
  Topology topology_;
  Ring ring_;
  bool direct_;
  std::vector<Channel> channels_;
  std::mutex mutex_;  // guards windows_
  std::vector<std::unique_ptr<Window>> windows_;
};

}  // namespace shardsolve::comm::cuda
