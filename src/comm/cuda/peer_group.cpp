#include "comm/cuda/peer_group.hpp"

#include <chrono>
#include <utility>

namespace shardsolve::comm::cuda {
namespace {

/// Kernels of two ranks on one GPU could not be relied on to run side by side.
bool all_reach_each_other(const Topology& topology) {
  for (std::int64_t from = 0; from < topology.ranks(); ++from) {
    for (std::int64_t to = 0; to < topology.ranks(); ++to) {
      const LinkKind kind = topology.link(from, to).kind;
      if (from != to && kind != LinkKind::nvlink && kind != LinkKind::pcie) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

PeerGroup::PeerGroup(InProcessGroup& host, const Topology& topology, Ring ring)
    : host_(host),
      topology_(topology),
      ring_(std::move(ring)),
      direct_(all_reach_each_other(topology)),
      channels_(ranks() * ranks()) {}

PeerGroup::Window::Window(std::size_t ranks) : members(ranks) {
  for (Member& member : members) {
    member.from = std::vector<Arrivals>(ranks);
  }
}

void PeerGroup::Window::join(const PeerGroup& group, std::int64_t rank, Bytes memory) {
  Member& own = members[static_cast<std::size_t>(rank)];
  own.base = static_cast<std::byte*>(memory.data);
  for (Arrivals& arrivals : own.from) {
    for (auto& event : arrivals.events) {
      if (!event) {
        event = std::make_unique<CudaEvent>();
      }
    }
  }
  own.joined.store(1);
  for (std::size_t r = 0; r < members.size(); ++r) {
    group.meet(members[r].joined, 1, rank, static_cast<std::int64_t>(r), "make_window");
  }
}

void PeerGroup::meet(const runtime::host::OneWayCounter& counter, std::uint32_t target,
                     std::int64_t self, std::int64_t peer, const char* operation) const {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::microseconds(50);
  while (Clock::now() < end) {
    if (static_cast<std::int32_t>(counter.load() - target) >= 0) {
      return;
    }
  }
  host_.wait(counter, target, self, peer, operation);
}

PeerGroup::Window& PeerGroup::window(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (index == windows_.size()) {
    windows_.push_back(std::make_unique<Window>(ranks()));
  }
  return *windows_[index];
}

void PeerGroup::reset() {
  for (Channel& channel : channels_) {
    channel.posted.reset();
    channel.taken.reset();
    channel.count = 0;
    channel.receives = 0;
  }
  // Their events are kept: making one takes microseconds, and there are many.
  for (const auto& window : windows_) {
    for (Window::Member& member : window->members) {
      member.joined.reset();
      for (Window::Arrivals& arrivals : member.from) {
        arrivals.enqueued.reset();
      }
    }
  }
}

}  // namespace shardsolve::comm::cuda
