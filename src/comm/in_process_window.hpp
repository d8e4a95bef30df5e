/// A window between threads: everybody reads the root's own memory.
#pragma once

#include "comm/in_process.hpp"
#include "comm/traced_messages.hpp"
#include "comm/window.hpp"

#include <shardsolve/trace.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::comm {

class InProcessWindow final : public Window {
 public:
  /// `index`: the number of the window in its call. Waits until the other ranks have brought their
  /// memory too.
  InProcessWindow(InProcessGroup& group, InProcessGroup::SharedWindow& shared, std::size_t index,
                  std::int64_t rank, Bytes memory);

  std::byte* base(std::int64_t root) const override {
    return shared_.members[static_cast<std::size_t>(root)].base;
  }
  void publish(runtime::Queue& queue, std::vector<WindowPart> parts) override;
  void release(runtime::Queue& queue) override;
  void reclaim(runtime::Queue& queue) override;

 private:
  /// One end of what a rank tells another about this window, as the trace has it; `count`: of the
  /// parts published by whose memory it is about.
  TraceMessage message(WindowNotice notice, std::int64_t from, std::int64_t to, std::uint32_t count,
                       std::size_t bytes) const;

  InProcessGroup& group_;
  InProcessGroup::SharedWindow& shared_;
  std::size_t index_;
  std::int64_t rank_;
  std::vector<std::uint32_t> published_;  // by each root, as far as this rank has enqueued
  std::vector<std::uint32_t> released_;
};

}  // namespace shardsolve::comm
