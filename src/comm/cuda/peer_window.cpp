#include "comm/cuda/peer_window.hpp"

#include <algorithm>

namespace shardsolve::comm::cuda {
namespace {

/// From here on the ring is quicker than the root's links, which then carry a part once for each.
constexpr std::size_t large = std::size_t{1} << 20U;

constexpr runtime::WaitSite part_there{82, "a part is copied when its source has it"};
constexpr runtime::WaitSite part_copied{83, "a window's memory is used again when it was copied"};

}  // namespace

PeerWindow::PeerWindow(PeerGroup& group, PeerGroup::Window& shared, std::int64_t rank, Bytes memory)
    : group_(group),
      shared_(shared),
      own_(shared.members[static_cast<std::size_t>(rank)]),
      rank_(rank),
      published_(group.ranks(), 0),
      read_by_(group.ranks(), std::vector<std::uint32_t>(group.ranks(), 0)) {
  shared_.join(group_, rank_, memory);
}

std::int64_t PeerWindow::source(std::int64_t reader, const WindowPart& part) const {
  return part.size < large ? part.root : group_.ring().before(reader);
}

void PeerWindow::publish(runtime::Queue& queue, std::vector<WindowPart> parts) {
  parts.erase(std::remove_if(parts.begin(), parts.end(),
                             [](const WindowPart& part) { return part.size == 0; }),
              parts.end());
  // The nearest first: by then those before have brought what is further away to their neighbours.
  const auto distance = [&](const WindowPart& part) {
    return group_.ring().distance(part.root, rank_);
  };
  std::stable_sort(parts.begin(), parts.end(), [&](const WindowPart& a, const WindowPart& b) {
    return distance(a) < distance(b);
  });
  for (const WindowPart& part : parts) {
    bring(queue, part);
  }
}

void PeerWindow::bring(runtime::Queue& queue, const WindowPart& part) {
  const auto root = static_cast<std::size_t>(part.root);
  const std::uint32_t number = published_[root]++;
  await_event_free(part.root, number);
  Arrivals& mine = arrivals(rank_, part.root);
  if (rank_ != part.root) {
    const std::int64_t from = source(rank_, part);
    Arrivals& theirs = arrivals(from, part.root);
    group_.meet(theirs.enqueued, number + 1, rank_, from, "publish");
    queue.wait(theirs.event(number), part_there);
    const std::byte* data = shared_.members[static_cast<std::size_t>(from)].base;
    static_cast<runtime::cuda::CudaQueue&>(queue).move("publish", group_.link(from, rank_),
                                                       own_.base + part.offset, data + part.offset,
                                                       part.size);
  }
  queue.record(mine.event(number));
  mine.enqueued.store(number + 1);
  for (std::int64_t reader = 0; reader < static_cast<std::int64_t>(group_.ranks()); ++reader) {
    if (reader != part.root && reader != rank_ && source(reader, part) == rank_) {
      read_by_[static_cast<std::size_t>(reader)][root] = number + 1;
    }
  }
}

/// An event may be recorded anew when everybody who was to wait for it has enqueued that. No rank
/// is more than two quarters of a round behind, so nobody still needs the events of a round ago,
/// and nobody has yet to release the message that they were part of.
void PeerWindow::await_event_free(std::int64_t root, std::uint32_t number) {
  constexpr std::uint32_t quarter = Arrivals::depth / 4;
  if (number < Arrivals::depth || number % quarter != 0) {
    return;
  }
  for (std::int64_t r = 0; r < static_cast<std::int64_t>(group_.ranks()); ++r) {
    if (r != rank_) {
      group_.meet(arrivals(r, root).enqueued, number - quarter, rank_, r, "publish");
    }
  }
}

void PeerWindow::release(runtime::Queue& queue) {
  for (std::size_t reader = 0; reader < read_by_.size(); ++reader) {
    for (std::size_t root = 0; root < read_by_.size(); ++root) {
      std::uint32_t& count = read_by_[reader][root];
      if (count > 0) {
        const auto rank = static_cast<std::int64_t>(reader);
        Arrivals& theirs = arrivals(rank, static_cast<std::int64_t>(root));
        group_.meet(theirs.enqueued, count, rank_, rank, "release");
        queue.wait(theirs.event(count - 1), part_copied);
        count = 0;
      }
    }
  }
}

}  // namespace shardsolve::comm::cuda
