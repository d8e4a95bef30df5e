#include "comm/cuda/peer_window.hpp"

#include "comm/cuda/wait_sites.hpp"

namespace shardsolve::comm::cuda {
namespace {

using runtime::cuda::as_cuda;

/// From here on the ring is quicker than the root's links, which then carry a part once for each.
constexpr std::size_t large = std::size_t{1} << 20U;

/// As meet() takes it; nothing if the call is not traced.
std::vector<TraceMessage> traced(runtime::Queue& queue, const TraceMessage& message) {
  return as_cuda(queue).tracing() ? std::vector<TraceMessage>{message}
                                  : std::vector<TraceMessage>{};
}

}  // namespace

PeerWindow::PeerWindow(PeerGroup& group, std::size_t index, std::int64_t rank, Bytes memory)
    : group_(group),
      index_(index),
      shared_(group.window(index)),
      rank_(rank),
      published_(group.ranks(), group.first()),
      read_by_(group.ranks(), std::vector<std::optional<std::uint32_t>>(group.ranks())) {
  shared_.join(rank_, memory);
}

std::int64_t PeerWindow::source(std::int64_t reader, const WindowPart& part) const {
  return part.size < large ? part.root : group_.ring().before(reader);
}

void PeerWindow::publish(runtime::Queue& queue, const WindowPart& part) {
  if (part.size == 0) {
    return;
  }
  const auto root = static_cast<std::size_t>(part.root);
  const std::uint32_t number = published_[root]++;
  await_event_free(part.root, number);
  if (rank_ != part.root) {
    const std::int64_t from = source(rank_, part);
    Marks& theirs = shared_.arrivals(from, part.root);
    as_cuda(queue).meet(
        "await publish",
        [&] {
          group_.meet(theirs.enqueued(), number + 1, rank_, from, "publish");
          theirs.wait(queue, number, sites::part_there);
        },
        traced(queue, message(WindowNotice::published, part.root, number, from, rank_, part.size)));
    as_cuda(queue).move("publish", group_.link(from, rank_), shared_.base(rank_) + part.offset,
                        shared_.base(from) + part.offset, part.size);
  }
  as_cuda(queue).meet(
      "arrival", [&] { shared_.arrivals(rank_, part.root).record(queue, number); },
      as_cuda(queue).tracing() ? told_of(part, number) : std::vector<TraceMessage>{});
  for (std::int64_t reader = 0; reader < static_cast<std::int64_t>(group_.ranks()); ++reader) {
    if (reader != part.root && reader != rank_ && source(reader, part) == rank_) {
      read_by_[static_cast<std::size_t>(reader)][root] = number;
    }
  }
}

/// Those who copy from it may begin, and whom it has copied from may write there again.
std::vector<TraceMessage> PeerWindow::told_of(const WindowPart& part, std::uint32_t number) const {
  std::vector<TraceMessage> told;
  for (std::int64_t reader = 0; reader < static_cast<std::int64_t>(group_.ranks()); ++reader) {
    if (reader != part.root && reader != rank_ && source(reader, part) == rank_) {
      told.push_back(message(WindowNotice::published, part.root, number, rank_, reader, part.size));
    }
  }
  if (rank_ != part.root) {
    told.push_back(
        message(WindowNotice::released, part.root, number, rank_, source(rank_, part), 0));
  }
  return told;
}

TraceMessage PeerWindow::message(WindowNotice notice, std::int64_t root, std::uint32_t number,
                                 std::int64_t from, std::int64_t to, std::size_t bytes) const {
  return {from, to, window_number(notice, index_, root, number - group_.first()),
          static_cast<double>(bytes)};
}

/// A mark may be recorded anew when everybody who was to wait for it has enqueued that. No rank
/// is more than two quarters of a round behind, so nobody still needs the marks of a round ago,
/// and nobody has yet to release the message that they were part of.
void PeerWindow::await_event_free(std::int64_t root, std::uint32_t number) {
  constexpr std::uint32_t quarter = PeerGroup::depth / 4;
  if (number - group_.first() < PeerGroup::depth || number % quarter != 0) {
    return;
  }
  for (std::int64_t r = 0; r < static_cast<std::int64_t>(group_.ranks()); ++r) {
    if (r != rank_) {
      group_.meet(shared_.arrivals(r, root).enqueued(), number - quarter, rank_, r, "publish");
    }
  }
}

void PeerWindow::release(runtime::Queue& queue) {
  for (std::size_t reader = 0; reader < read_by_.size(); ++reader) {
    for (std::size_t root = 0; root < read_by_.size(); ++root) {
      std::optional<std::uint32_t>& last = read_by_[reader][root];
      if (last) {
        const auto from = static_cast<std::int64_t>(reader);
        Marks& theirs = shared_.arrivals(from, static_cast<std::int64_t>(root));
        as_cuda(queue).meet(
            "release",
            [&] {
              group_.meet(theirs.enqueued(), *last + 1, rank_, from, "release");
              theirs.wait(queue, *last, sites::part_copied);
            },
            traced(queue, message(WindowNotice::released, static_cast<std::int64_t>(root), *last,
                                  from, rank_, 0)));
        last.reset();
      }
    }
  }
}

}  // namespace shardsolve::comm::cuda
