/// A window between ranks that reach each other's memory: everybody reads the root's own.
#pragma once

#include "comm/traced_messages.hpp"
#include "comm/window.hpp"
#include "runtime/host/one_way_counter.hpp"

#include <shardsolve/trace.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace shardsolve::comm {

class InPlaceWindow final : public Window {
 public:
  using Counter = runtime::host::OneWayCounter;

  /// One rank's buffer, as this process reaches it, and what the ranks tell each other of it.
  struct Member {
    std::byte* base = nullptr;
    Counter* published = nullptr;       // parts that the member has published
    Counter* released_here = nullptr;   // those of them that this rank has released
    Counter* released_there = nullptr;  // this rank's parts that the member has released
  };
  /// Waits until a counter that rank `peer` raises has reached the target. Throws as Watch::look.
  using Wait = std::function<void(const Counter& counter, std::uint32_t target, std::int64_t peer,
                                  const char* operation)>;

  /// `index`: the number of the window in its call; `first`: where its counters begin.
  InPlaceWindow(std::vector<Member> members, std::int64_t rank, std::size_t index,
                std::uint32_t first, Wait wait);

  std::byte* base(std::int64_t root) const override { return member(root).base; }
  void publish(runtime::Queue& queue, const WindowPart& part) override;
  void release(runtime::Queue& queue) override;
  void reclaim(runtime::Queue& queue) override;

 private:
  const Member& member(std::int64_t rank) const { return members_[static_cast<std::size_t>(rank)]; }
  std::int64_t ranks() const { return static_cast<std::int64_t>(members_.size()); }
  /// A notice about this window from one rank to another, as a trace names it. `count`: how many
  /// parts the rank whose buffer it is about has published.
  TraceMessage message(WindowNotice notice, std::int64_t from, std::int64_t to, std::uint32_t count,
                       std::size_t bytes) const;

  std::vector<Member> members_;
  std::int64_t rank_;
  std::size_t index_;
  std::uint32_t first_;
  Wait wait_;
  std::vector<std::uint32_t> published_;  // by each root, as far as this rank has enqueued
  std::vector<std::uint32_t> released_;
};

}  // namespace shardsolve::comm
