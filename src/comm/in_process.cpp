#include "comm/in_process.hpp"

#include "comm/copy_window.hpp"
#include "comm/in_process_window.hpp"
#include "runtime/host/host_queue.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace shardsolve::comm {
namespace {

std::vector<Bytes> nothing(const InProcessGroup& group) {
  return std::vector<Bytes>(static_cast<std::size_t>(group.ranks()));
}

}  // namespace

void InProcess::broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) {
  auto send = nothing(group_);
  auto receive = nothing(group_);
  if (rank_ == root) {
    send.assign(send.size(), data);
  } else {
    receive[static_cast<std::size_t>(root)] = data;
  }
  enqueue(queue, "broadcast", std::move(send), std::move(receive));
}

void InProcess::all_gather(runtime::Queue& queue, std::vector<Bytes> pieces) {
  std::vector<Bytes> send(pieces.size(), pieces[static_cast<std::size_t>(rank_)]);
  enqueue(queue, "all_gather", std::move(send), std::move(pieces));
}

void InProcess::gather(runtime::Queue& queue, Bytes data, std::vector<Bytes> pieces,
                       std::int64_t root) {
  auto send = nothing(group_);
  if (rank_ == root) {
    enqueue(queue, "gather", std::move(send), std::move(pieces));
  } else {
    send[static_cast<std::size_t>(root)] = data;
    enqueue(queue, "gather", std::move(send), nothing(group_));
  }
}

void InProcess::all_to_all(runtime::Queue& queue, std::vector<Bytes> send,
                           std::vector<Bytes> receive) {
  enqueue(queue, "all_to_all", std::move(send), std::move(receive));
}

std::unique_ptr<Window> InProcess::make_window(Bytes memory) {
  if (windows_ == Windows::copied) {
    return std::make_unique<CopyWindow>(*this, group_.ranks(), rank_, memory);
  }
  return std::make_unique<InProcessWindow>(group_, group_.shared_window(windows_made_++), rank_,
                                           memory);
}

void InProcess::enqueue(runtime::Queue& queue, const char* operation, std::vector<Bytes> send,
                        std::vector<Bytes> receive) {
  send[static_cast<std::size_t>(rank_)] = {};
  receive[static_cast<std::size_t>(rank_)] = {};
  double bytes = 0.0;
  for (const Bytes& piece : receive) {
    bytes += static_cast<double>(piece.size);
  }
  static_cast<runtime::host::HostQueue&>(queue).launch(
      {.name = operation, .bytes = bytes},
      [this, operation, send = std::move(send), receive = std::move(receive)] {
        exchange(operation, send, receive);
      });
}

void InProcess::exchange(const char* operation, const std::vector<Bytes>& send,
                         const std::vector<Bytes>& receive) {
  const std::int64_t ranks = group_.ranks();
  for (std::int64_t to = 0; to < ranks; ++to) {
    const Bytes& piece = send[static_cast<std::size_t>(to)];
    if (piece.size > 0) {
      InProcessGroup::Channel& channel = group_.channel(rank_, to);
      channel.data = piece.data;
      channel.size = piece.size;
      channel.operation = operation;
      channel.posted.store(++channel.sends);
    }
  }
  for (std::int64_t distance = 1; distance < ranks; ++distance) {
    const std::int64_t from = (rank_ + distance) % ranks;  // not all at the same source at once
    const Bytes& piece = receive[static_cast<std::size_t>(from)];
    if (piece.size > 0) {
      InProcessGroup::Channel& channel = group_.channel(from, rank_);
      group_.wait(channel.posted, ++channel.receives, rank_, from, operation);
      if (channel.size != piece.size || std::strcmp(channel.operation, operation) != 0) {
        throw Error(
            ErrorKind::internal,
            fmt::format("rank {} expects {} bytes by {} from rank {}, which sent {} by {}: "
                        "this is a bug of shardsolve, please report it",
                        rank_, piece.size, operation, from, channel.size, channel.operation));
      }
      std::memcpy(piece.data, channel.data, piece.size);
      channel.taken.store(channel.receives);
    }
  }
  for (std::int64_t to = 0; to < ranks; ++to) {
    if (send[static_cast<std::size_t>(to)].size > 0) {
      InProcessGroup::Channel& channel = group_.channel(rank_, to);
      group_.wait(channel.taken, channel.sends, rank_, to, operation);
    }
  }
}

}  // namespace shardsolve::comm
