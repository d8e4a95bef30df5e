#include "comm/cuda/direct_memory.hpp"

namespace shardsolve::comm::cuda {
namespace {

constexpr runtime::WaitSite all_are_here{84, "ranks begin with each other's memory together"};

}  // namespace

DirectMemory::DirectMemory(PeerGroup& group, PeerGroup::Window& shared, std::int64_t rank,
                           Bytes memory)
    : group_(group), shared_(shared), rank_(rank) {
  shared_.join(group_, rank_, memory);
}

void DirectMemory::fence(runtime::Queue& queue) {
  // Nobody still needs the event of a round ago: all have come to the fences since.
  PeerGroup::Window::Arrivals& mine = fences(rank_);
  queue.record(mine.event(fences_));
  mine.enqueued.store(fences_ + 1);
  for (std::int64_t r = 0; r < static_cast<std::int64_t>(group_.ranks()); ++r) {
    if (r != rank_) {
      group_.meet(fences(r).enqueued, fences_ + 1, rank_, r, "fence");
      queue.wait(fences(r).event(fences_), all_are_here);
    }
  }
  ++fences_;
}

}  // namespace shardsolve::comm::cuda
