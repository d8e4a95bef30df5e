#include "comm/cuda/direct_memory.hpp"

namespace shardsolve::comm::cuda {
namespace {

constexpr runtime::WaitSite all_are_here{84, "ranks begin with each other's memory together"};

}  // namespace

DirectMemory::DirectMemory(PeerGroup& group, PeerGroup::Window& shared, std::int64_t rank,
                           Bytes memory)
    : group_(group), shared_(shared), rank_(rank), next_(group.first()) {
  shared_.join(rank_, memory);
}

void DirectMemory::fence(runtime::Queue& queue) {
  // Nobody still needs the mark of a round ago: all have come to the fences since.
  fences(rank_).record(queue, next_);
  for (std::int64_t r = 0; r < static_cast<std::int64_t>(group_.ranks()); ++r) {
    if (r != rank_) {
      group_.meet(fences(r).enqueued(), next_ + 1, rank_, r, "fence");
      fences(r).wait(queue, next_, all_are_here);
    }
  }
  ++next_;
}

}  // namespace shardsolve::comm::cuda
