/// A window between GPUs: every rank has a copy, made by the copy engines.
#pragma once

#include "comm/communicator.hpp"
#include "comm/cuda/peer_group.hpp"
#include "comm/traced_messages.hpp"
#include "comm/window.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shardsolve::comm::cuda {

/// Publishing copies each part into the same place of every rank's buffer. Large parts go from GPU
/// to GPU round the ring, so that each link carries them once and chunks follow each other; small
/// ones come straight from the root.
class PeerWindow final : public Window {
 public:
  /// `index`: the number of the window in its call. Waits until the other ranks have brought their
  /// memory too.
  PeerWindow(PeerGroup& group, std::size_t index, std::int64_t rank, Bytes memory);

  std::byte* base(std::int64_t) const override { return shared_.base(rank_); }
  void publish(runtime::Queue& queue, const WindowPart& part) override;
  /// Also keeps the copies of this rank until those who read them have: what comes next into the
  /// window is enqueued behind this.
  void release(runtime::Queue& queue) override;
  void reclaim(runtime::Queue&) override {}

 private:
  /// The rank that `reader` copies a part of `root` from.
  std::int64_t source(std::int64_t reader, const WindowPart& part) const;
  void await_event_free(std::int64_t root, std::uint32_t number);
  /// What this rank tells others when it has a part, as traces have it.
  std::vector<TraceMessage> told_of(const WindowPart& part, std::uint32_t number) const;
  TraceMessage message(WindowNotice notice, std::int64_t root, std::uint32_t number,
                       std::int64_t from, std::int64_t to, std::size_t bytes) const;

  PeerGroup& group_;
  std::size_t index_;
  PeerGroup::Window& shared_;
  std::int64_t rank_;
  std::vector<std::uint32_t> published_;  // parts of each root
  /// The last part of each root that each rank has copied from this one; nothing if none.
  std::vector<std::vector<std::optional<std::uint32_t>>> read_by_;
};

}  // namespace shardsolve::comm::cuda
