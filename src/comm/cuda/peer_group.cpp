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

PeerGroup::PeerGroup(const Pulses& pulses, const Topology& topology, Ring ring)
    : pulses_(pulses),
      topology_(topology),
      ring_(std::move(ring)),
      direct_(all_reach_each_other(topology)),
      channels_(ranks() * ranks()) {}

void PeerGroup::meet(const runtime::host::OneWayCounter& counter, std::uint32_t target,
                     std::int64_t self, std::int64_t peer, const char* operation) const {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::microseconds(50);
  while (Clock::now() < end) {
    if (static_cast<std::int32_t>(counter.load() - target) >= 0) {
      return;
    }
  }
  wait(counter, target, self, peer, operation);
}

PeerGroup::Window& PeerGroup::window(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (index == windows_.size()) {
    windows_.push_back(make_window(index));
  }
  return *windows_[index];
}

}  // namespace shardsolve::comm::cuda
