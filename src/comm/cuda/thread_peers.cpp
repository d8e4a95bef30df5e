#include "comm/cuda/thread_peers.hpp"

#include <utility>

namespace shardsolve::comm::cuda {

class ThreadPeers::ThreadWindow final : public PeerGroup::Window {
 public:
  explicit ThreadWindow(const PeerGroup& group) : group_(group), members_(group.ranks()) {
    arrivals_.resize(group.ranks());
    for (auto& of_rank : arrivals_) {
      for (std::size_t root = 0; root < group.ranks(); ++root) {
        of_rank.push_back(std::make_unique<EventMarks>(depth));
      }
    }
  }

  void join(std::int64_t rank, Bytes memory) override {
    Member& own = members_[static_cast<std::size_t>(rank)];
    own.base = static_cast<std::byte*>(memory.data);
    own.joined.store(1);
    for (std::size_t r = 0; r < members_.size(); ++r) {
      group_.meet(members_[r].joined, 1, rank, static_cast<std::int64_t>(r), "make_window");
    }
  }
  std::byte* base(std::int64_t rank) const override {
    return members_[static_cast<std::size_t>(rank)].base;
  }

  void reset() {
    for (Member& member : members_) {
      member.joined.reset();
    }
    for (auto& of_rank : arrivals_) {
      for (const auto& marks : of_rank) {
        static_cast<EventMarks&>(*marks).reset();
      }
    }
  }

 private:
  struct Member {
    runtime::host::OneWayCounter joined;
    std::byte* base = nullptr;
  };

  const PeerGroup& group_;
  std::vector<Member> members_;
};

ThreadPeers::ThreadPeers(const Pulses& pulses, const Topology& topology, Ring ring)
    : PeerGroup(pulses, topology, std::move(ring)), pieces_(ranks() * ranks()) {
  // A sender waits for one piece to be delivered before it sends the next.
  make_channels([](std::int64_t, std::int64_t, bool) { return std::make_unique<EventMarks>(1); });
}

void ThreadPeers::offer(std::int64_t from, std::int64_t to, Bytes offer) {
  piece(from, to) = offer;
}

Bytes ThreadPeers::offered(std::int64_t from, std::int64_t to) { return piece(from, to); }

std::unique_ptr<PeerGroup::Window> ThreadPeers::make_window(std::size_t) {
  return std::make_unique<ThreadWindow>(*this);
}

void ThreadPeers::begin_call(std::int64_t rank) {
  if (rank != 0) {
    return;
  }
  for_each_channel([](Channel& channel) {
    static_cast<EventMarks&>(*channel.ready).reset();
    static_cast<EventMarks&>(*channel.delivered).reset();
    channel.sent = 0;
    channel.received = 0;
  });
  for (const auto& window : windows()) {
    static_cast<ThreadWindow&>(*window).reset();
  }
}

}  // namespace shardsolve::comm::cuda
