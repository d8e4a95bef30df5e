/// GPUs of one process.
#pragma once

#include "comm/cuda/peer_group.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::comm::cuda {

/// Ranks are threads: they reach each other's memory by its address, and marks are events.
class ThreadPeers final : public PeerGroup {
 public:
  ThreadPeers(const Pulses& pulses, const Topology& topology, Ring ring);

  void offer(std::int64_t from, std::int64_t to, Bytes piece) override;
  Bytes offered(std::int64_t from, std::int64_t to) override;
  std::uint32_t first() const override { return 0; }
  void begin_call(std::int64_t rank) override;

 private:
  class ThreadWindow;

  std::unique_ptr<Window> make_window(std::size_t index) override;
  Bytes& piece(std::int64_t from, std::int64_t to) {
    return pieces_[static_cast<std::size_t>(from) * ranks() + static_cast<std::size_t>(to)];
  }

  std::vector<Bytes> pieces_;  // of the channels
};

}  // namespace shardsolve::comm::cuda
