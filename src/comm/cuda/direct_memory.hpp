/// GPUs that write to each other's memory.
#pragma once

#include "comm/communicator.hpp"
#include "comm/cuda/peer_group.hpp"

#include <shardsolve/trace.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::comm::cuda {

class DirectMemory final : public PeerMemory {
 public:
  /// `index`: as of a window. Waits until the other ranks have brought their memory too.
  DirectMemory(PeerGroup& group, std::size_t index, std::int64_t rank, Bytes memory);

  void* of(std::int64_t rank) const override { return shared_.base(rank); }
  void fence(runtime::Queue& queue) override;

 private:
  /// A rank's fences are the arrivals of parts of its own.
  Marks& fences(std::int64_t rank) const { return shared_.arrivals(rank, rank); }
  /// Both ends of what ranks tell each other with the next one, as traces have them.
  std::vector<TraceMessage> messages() const;

  PeerGroup& group_;
  std::size_t index_;
  PeerGroup::Window& shared_;
  std::int64_t rank_;
  std::uint32_t next_;  // number of a fence
};

}  // namespace shardsolve::comm::cuda
