/// What the ranks of one process that are GPUs share to reach each other's memory.
#pragma once

#include "comm/communicator.hpp"
#include "comm/in_process_group.hpp"
#include "comm/ring.hpp"
#include "comm/topology.hpp"
#include "runtime/cuda/cuda_queue.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace shardsolve::comm::cuda {

using runtime::cuda::CudaEvent;

/// Ranks meet on the host, in the threads that enqueue, to tell each other addresses and events;
/// what they then enqueue waits on the GPUs alone. A thread waits only for others to have enqueued
/// what every rank enqueues, never for work to be done.
class PeerGroup {
 public:
  /// `ring`: the order in which large parts of windows go from GPU to GPU.
  PeerGroup(InProcessGroup& host, const Topology& topology, Ring ring);

  InProcessGroup& host() { return host_; }
  /// Whether every rank has a GPU of its own, which reaches the memory of all others.
  bool direct() const { return direct_; }
  const Ring& ring() const { return ring_; }
  /// What copies from one rank to another go over, for traces.
  const char* link(std::int64_t from, std::int64_t to) const {
    return name(topology_.link(from, to).kind);
  }
  std::size_t ranks() const { return static_cast<std::size_t>(host_.ranks()); }

  /// Waits until `peer` has counted to `target`. Spins first: it is nearly always there.
  void meet(const runtime::host::OneWayCounter& counter, std::uint32_t target, std::int64_t self,
            std::int64_t peer, const char* operation) const;

  /// One piece at a time from one rank to another.
  struct Channel {
    runtime::host::OneWayCounter posted;
    runtime::host::OneWayCounter taken;
    const void* data = nullptr;
    std::size_t size = 0;
    std::uint32_t count = 0;               // sender's
    std::uint32_t receives = 0;            // receiver's
    std::unique_ptr<CudaEvent> ready;      // sender's: the piece may be read
    std::unique_ptr<CudaEvent> delivered;  // receiver's: it has been
  };
  Channel& channel(std::int64_t from, std::int64_t to) {
    return channels_[static_cast<std::size_t>(from) * ranks() + static_cast<std::size_t>(to)];
  }

  /// What the ranks share of one window.
  struct Window {
    /// How many parts of one root a rank has enqueued the arrival of, and when each arrives. An
    /// event is used again after `depth` parts, many times what one message has.
    struct Arrivals {
      static constexpr std::uint32_t depth = 64;
      runtime::host::OneWayCounter enqueued;
      std::array<std::unique_ptr<CudaEvent>, depth> events;

      CudaEvent& event(std::uint32_t number) { return *events[number % depth]; }
    };
    struct Member {
      runtime::host::OneWayCounter joined;
      std::byte* base = nullptr;
      std::vector<Arrivals> from;  // one a root
    };
    explicit Window(std::size_t ranks);
    /// Brings a rank's memory; waits until the other ranks have brought theirs.
    void join(const PeerGroup& group, std::int64_t rank, Bytes memory);
    std::vector<Member> members;
  };
  /// The window number `index` of this call, made by the first rank that asks.
  Window& window(std::size_t index);

  /// Only while no rank communicates: counts from zero.
  void reset();

 private:
  InProcessGroup& host_;
  Topology topology_;
  Ring ring_;
  bool direct_;
  std::vector<Channel> channels_;
  std::mutex mutex_;  // guards windows_
  std::vector<std::unique_ptr<Window>> windows_;
};

}  // namespace shardsolve::comm::cuda
