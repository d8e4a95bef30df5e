#include "comm/in_process.hpp"

#include "comm/copy_window.hpp"
#include "comm/in_place_window.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace shardsolve::comm {

std::unique_ptr<Window> InProcess::make_window(Bytes memory) {
  if (windows_ == Windows::copied) {
    return std::make_unique<CopyWindow>(*this, rank(), memory);
  }
  const std::size_t index = windows_made_++;
  InProcessGroup::SharedWindow& shared = group_.shared_window(index);
  auto& self = shared.members[static_cast<std::size_t>(rank())];
  self.base = static_cast<std::byte*>(memory.data);
  self.joined.store(1);
  std::vector<InPlaceWindow::Member> members;
  for (std::size_t root = 0; root < shared.members.size(); ++root) {
    InProcessGroup::SharedWindow::Member& theirs = shared.members[root];
    group_.pulses().wait(theirs.joined, 1, rank(), static_cast<std::int64_t>(root), "make_window");
    members.push_back({theirs.base, &theirs.published,
                       &shared.released_by(static_cast<std::size_t>(rank()), root),
                       &shared.released_by(root, static_cast<std::size_t>(rank()))});
  }
  return std::make_unique<InPlaceWindow>(
      std::move(members), rank(), index, 0,
      [this](const runtime::host::OneWayCounter& counter, std::uint32_t target, std::int64_t peer,
             const char* operation) {
        group_.pulses().wait(counter, target, rank(), peer, operation);
      });
}

void InProcess::exchange(const char* operation, const std::vector<Bytes>& send,
                         const std::vector<Bytes>& receive) {
  for (std::int64_t to = 0; to < ranks(); ++to) {
    const Bytes& piece = send[static_cast<std::size_t>(to)];
    if (piece.size > 0) {
      InProcessGroup::Channel& channel = group_.channel(rank(), to);
      channel.data = piece.data;
      channel.size = piece.size;
      channel.operation = operation;
      channel.posted.store(++channel.sends);
    }
  }
  for (std::int64_t distance = 1; distance < ranks(); ++distance) {
    const std::int64_t from = (rank() + distance) % ranks();  // not all at the same source at once
    const Bytes& piece = receive[static_cast<std::size_t>(from)];
    if (piece.size > 0) {
      InProcessGroup::Channel& channel = group_.channel(from, rank());
      group_.pulses().wait(channel.posted, ++channel.receives, rank(), from, operation);
      if (channel.size != piece.size || std::strcmp(channel.operation, operation) != 0) {
        throw Error(
            ErrorKind::internal,
            fmt::format("rank {} expects {} bytes by {} from rank {}, which sent {} by {}: "
                        "this is a bug of shardsolve, please report it",
                        rank(), piece.size, operation, from, channel.size, channel.operation));
      }
      std::memcpy(piece.data, channel.data, piece.size);
      channel.taken.store(channel.receives);
    }
  }
  for (std::int64_t to = 0; to < ranks(); ++to) {
    if (send[static_cast<std::size_t>(to)].size > 0) {
      InProcessGroup::Channel& channel = group_.channel(rank(), to);
      group_.pulses().wait(channel.taken, channel.sends, rank(), to, operation);
    }
  }
}

}  // namespace shardsolve::comm
