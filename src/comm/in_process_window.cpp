#include "comm/in_process_window.hpp"

#include "runtime/host/host_queue.hpp"

#include <utility>

namespace shardsolve::comm {
namespace {

runtime::host::HostQueue& as_host(runtime::Queue& queue) {
  return static_cast<runtime::host::HostQueue&>(queue);
}

/// As launch() takes it; nothing if the call is not traced.
std::vector<TraceMessage> traced(runtime::Queue& queue, const TraceMessage& message) {
  return as_host(queue).tracing() ? std::vector<TraceMessage>{message}
                                  : std::vector<TraceMessage>{};
}

}  // namespace

TraceMessage InProcessWindow::message(WindowNotice notice, std::int64_t from, std::int64_t to,
                                      std::uint32_t count, std::size_t bytes) const {
  const std::int64_t root = notice == WindowNotice::published ? from : to;
  return {from, to, window_number(notice, index_, root, count), static_cast<double>(bytes)};
}

InProcessWindow::InProcessWindow(InProcessGroup& group, InProcessGroup::SharedWindow& shared,
                                 std::size_t index, std::int64_t rank, Bytes memory)
    : group_(group),
      shared_(shared),
      index_(index),
      rank_(rank),
      published_(shared.members.size(), 0),
      released_(shared.members.size(), 0) {
  auto& self = shared_.members[static_cast<std::size_t>(rank)];
  self.base = static_cast<std::byte*>(memory.data);
  self.joined.store(1);
  for (std::int64_t r = 0; r < group_.ranks(); ++r) {
    group_.wait(shared_.members[static_cast<std::size_t>(r)].joined, 1, rank_, r, "make_window");
  }
}

void InProcessWindow::publish(runtime::Queue& queue, std::vector<WindowPart> parts) {
  for (const WindowPart& part : parts) {
    const std::uint32_t count = ++published_[static_cast<std::size_t>(part.root)];
    auto& counter = shared_.members[static_cast<std::size_t>(part.root)].published;
    if (part.root == rank_) {
      std::vector<TraceMessage> messages;
      for (std::int64_t r = 0; as_host(queue).tracing() && r < group_.ranks(); ++r) {
        if (r != rank_ && part.size > 0) {
          messages.push_back(message(WindowNotice::published, rank_, r, count, part.size));
        }
      }
      as_host(queue).launch(
          {.name = "publish"}, [&counter, count] { counter.store(count); }, std::move(messages));
    }
  }
  for (const WindowPart& part : parts) {
    if (part.root != rank_ && part.size > 0) {
      const std::uint32_t count = published_[static_cast<std::size_t>(part.root)];
      auto& counter = shared_.members[static_cast<std::size_t>(part.root)].published;
      as_host(queue).launch(
          {.name = "await publish", .bytes = static_cast<double>(part.size)},
          [this, &counter, count, root = part.root] {
            group_.wait(counter, count, rank_, root, "publish");
          },
          traced(queue, message(WindowNotice::published, part.root, rank_, count, part.size)));
    }
  }
}

void InProcessWindow::release(runtime::Queue& queue) {
  for (std::int64_t root = 0; root < group_.ranks(); ++root) {
    const auto at = static_cast<std::size_t>(root);
    if (root != rank_ && released_[at] != published_[at]) {
      released_[at] = published_[at];
      auto& counter = shared_.released_by(rank_, root);
      as_host(queue).launch(
          {.name = "release"}, [&counter, count = published_[at]] { counter.store(count); },
          traced(queue, message(WindowNotice::released, rank_, root, released_[at], 0)));
    }
  }
}

void InProcessWindow::reclaim(runtime::Queue& queue) {
  const std::uint32_t count = published_[static_cast<std::size_t>(rank_)];
  for (std::int64_t reader = 0; reader < group_.ranks(); ++reader) {
    if (reader != rank_ && count > 0) {
      as_host(queue).launch(
          {.name = "reclaim"},
          [this, count, reader] {
            group_.wait(shared_.released_by(reader, rank_), count, rank_, reader, "reclaim");
          },
          traced(queue, message(WindowNotice::released, reader, rank_, count, 0)));
    }
  }
}

}  // namespace shardsolve::comm
