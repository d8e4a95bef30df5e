#include "comm/cuda/direct_memory.hpp"

#include "comm/cuda/wait_sites.hpp"
#include "comm/traced_messages.hpp"

namespace shardsolve::comm::cuda {
DirectMemory::DirectMemory(PeerGroup& group, std::size_t index, std::int64_t rank, Bytes memory)
    : group_(group),
      index_(index),
      shared_(group.window(index)),
      rank_(rank),
      next_(group.first()) {
  shared_.join(rank_, memory);
}

void DirectMemory::fence(runtime::Queue& queue) {
  auto& cuda = runtime::cuda::as_cuda(queue);
  const auto meet_all = [&] {
    // Nobody still needs the mark of a round ago: all have come to the fences since.
    fences(rank_).record(queue, next_);
    for (std::int64_t r = 0; r < static_cast<std::int64_t>(group_.ranks()); ++r) {
      if (r != rank_) {
        group_.meet(fences(r).enqueued(), next_ + 1, rank_, r, "fence");
        fences(r).wait(queue, next_, sites::all_are_here);
      }
    }
  };
  cuda.meet("fence", meet_all, cuda.tracing() ? messages() : std::vector<TraceMessage>{});
  ++next_;
}

std::vector<TraceMessage> DirectMemory::messages() const {
  const auto message = [this](std::int64_t from, std::int64_t to) {
    return TraceMessage{
        from, to, window_number(WindowNotice::published, index_, from, next_ - group_.first()),
        0.0};
  };
  std::vector<TraceMessage> ends;
  for (std::int64_t r = 0; r < static_cast<std::int64_t>(group_.ranks()); ++r) {
    if (r != rank_) {
      ends.push_back(message(rank_, r));
      ends.push_back(message(r, rank_));
    }
  }
  return ends;
}

}  // namespace shardsolve::comm::cuda
