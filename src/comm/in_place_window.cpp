#include "comm/in_place_window.hpp"

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

TraceMessage InPlaceWindow::message(WindowNotice notice, std::int64_t from, std::int64_t to,
                                    std::uint32_t count, std::size_t bytes) const {
  const std::int64_t root = notice == WindowNotice::published ? from : to;
  return {from, to, window_number(notice, index_, root, count), static_cast<double>(bytes)};
}

InPlaceWindow::InPlaceWindow(std::vector<Member> members, std::int64_t rank, std::size_t index,
                             std::uint32_t first, Wait wait)
    : members_(std::move(members)),
      rank_(rank),
      index_(index),
      first_(first),
      wait_(std::move(wait)),
      published_(members_.size(), 0),
      released_(members_.size(), 0) {}

void InPlaceWindow::publish(runtime::Queue& queue, const WindowPart& part) {
  const std::uint32_t count = ++published_[static_cast<std::size_t>(part.root)];
  if (part.root == rank_) {
    std::vector<TraceMessage> messages;
    for (std::int64_t r = 0; as_host(queue).tracing() && r < ranks(); ++r) {
      if (r != rank_ && part.size > 0) {
        messages.push_back(message(WindowNotice::published, rank_, r, count, part.size));
      }
    }
    as_host(queue).launch(
        {.name = "publish"}, [this, count] { member(rank_).published->store(first_ + count); },
        std::move(messages));
  } else if (part.size > 0) {
    as_host(queue).launch(
        {.name = "await publish", .bytes = static_cast<double>(part.size)},
        [this, count, root = part.root] {
          wait_(*member(root).published, first_ + count, root, "publish");
        },
        traced(queue, message(WindowNotice::published, part.root, rank_, count, part.size)));
  }
}

void InPlaceWindow::release(runtime::Queue& queue) {
  for (std::int64_t root = 0; root < ranks(); ++root) {
    const auto at = static_cast<std::size_t>(root);
    if (root != rank_ && released_[at] != published_[at]) {
      released_[at] = published_[at];
      as_host(queue).launch(
          {.name = "release"},
          [this, root, count = published_[at]] {
            member(root).released_here->store(first_ + count);
          },
          traced(queue, message(WindowNotice::released, rank_, root, released_[at], 0)));
    }
  }
}

void InPlaceWindow::reclaim(runtime::Queue& queue) {
  const std::uint32_t count = published_[static_cast<std::size_t>(rank_)];
  for (std::int64_t reader = 0; reader < ranks(); ++reader) {
    if (reader != rank_ && count > 0) {
      as_host(queue).launch(
          {.name = "reclaim"},
          [this, count, reader] {
            wait_(*member(reader).released_there, first_ + count, reader, "reclaim");
          },
          traced(queue, message(WindowNotice::released, reader, rank_, count, 0)));
    }
  }
}

}  // namespace shardsolve::comm
