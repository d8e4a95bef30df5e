#include "comm/cuda/peer_communicator.hpp"

#include "comm/cuda/direct_memory.hpp"
#include "comm/cuda/peer_window.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

namespace shardsolve::comm::cuda {
namespace {

constexpr runtime::WaitSite piece_ready{80, "a piece is taken when it is there"};
constexpr runtime::WaitSite piece_delivered{81, "a piece's memory is used again when taken"};

runtime::cuda::CudaQueue& as_cuda(runtime::Queue& queue) {
  return static_cast<runtime::cuda::CudaQueue&>(queue);
}

}  // namespace

void PeerCommunicator::broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) {
  std::vector<Bytes> send(group_.ranks());
  std::vector<Bytes> receive(group_.ranks());
  if (rank_ == root) {
    send.assign(send.size(), data);
  } else {
    receive[static_cast<std::size_t>(root)] = data;
  }
  exchange(queue, "broadcast", send, receive);
}

void PeerCommunicator::all_gather(runtime::Queue& queue, std::vector<Bytes> pieces) {
  const std::vector<Bytes> send(pieces.size(), pieces[static_cast<std::size_t>(rank_)]);
  exchange(queue, "all_gather", send, pieces);
}

void PeerCommunicator::gather(runtime::Queue& queue, Bytes data, std::vector<Bytes> pieces,
                              std::int64_t root) {
  std::vector<Bytes> send(group_.ranks());
  if (rank_ == root) {
    exchange(queue, "gather", send, pieces);
  } else {
    send[static_cast<std::size_t>(root)] = data;
    exchange(queue, "gather", send, std::vector<Bytes>(group_.ranks()));
  }
}

void PeerCommunicator::all_to_all(runtime::Queue& queue, std::vector<Bytes> send,
                                  std::vector<Bytes> receive) {
  exchange(queue, "all_to_all", send, receive);
}

std::unique_ptr<Window> PeerCommunicator::make_window(Bytes memory) {
  return std::make_unique<PeerWindow>(group_, windows_made_++, rank_, memory);
}

std::unique_ptr<PeerMemory> PeerCommunicator::make_peer_memory(Bytes memory) {
  if (!group_.direct()) {
    return nullptr;
  }
  return std::make_unique<DirectMemory>(group_, windows_made_++, rank_, memory);
}

void PeerCommunicator::begin_call() {
  windows_made_ = 0;
  messages_.begin_call();
  group_.begin_call(rank_);
}

void PeerCommunicator::exchange(runtime::Queue& queue, const char* operation,
                                const std::vector<Bytes>& send, const std::vector<Bytes>& receive) {
  runtime::WorkInfo info{.name = operation};
  bool any = false;
  for (std::int64_t peer = 0; peer < static_cast<std::int64_t>(group_.ranks()); ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    if (peer == rank_) {
      continue;
    }
    any = any || send[at].size > 0 || receive[at].size > 0;
    if (receive[at].size > 0) {
      info.bytes += static_cast<double>(receive[at].size);
      info.link = group_.link(peer, rank_);
    }
  }
  if (any) {
    as_cuda(queue).launch(
        info, [&] { enqueue(queue, operation, send, receive); },
        as_cuda(queue).tracing() ? messages_.next(send, receive) : std::vector<TraceMessage>{});
  }
}

void PeerCommunicator::enqueue(runtime::Queue& queue, const char* operation,
                               const std::vector<Bytes>& send, const std::vector<Bytes>& receive) {
  const auto ranks = static_cast<std::int64_t>(group_.ranks());
  const auto piece = [](const std::vector<Bytes>& pieces, std::int64_t rank) {
    return pieces[static_cast<std::size_t>(rank)];
  };
  for (std::int64_t to = 0; to < ranks; ++to) {
    if (to == rank_ || piece(send, to).size == 0) {
      continue;
    }
    PeerGroup::Channel& channel = group_.channel(rank_, to);
    group_.offer(rank_, to, piece(send, to));
    channel.ready->record(queue, channel.sent++);
  }
  for (std::int64_t distance = 1; distance < ranks; ++distance) {
    const std::int64_t from = (rank_ + distance) % ranks;  // not all at the same source at once
    const Bytes target = piece(receive, from);
    if (target.size == 0) {
      continue;
    }
    PeerGroup::Channel& channel = group_.channel(from, rank_);
    const std::uint32_t number = channel.received++;
    group_.meet(channel.ready->enqueued(), number + 1, rank_, from, operation);
    const Bytes source = group_.offered(from, rank_);
    if (source.size != target.size) {
      throw Error(ErrorKind::internal,
                  fmt::format("rank {} expects {} bytes by {} from rank {}, which sent {}: this is "
                              "a bug of shardsolve, please report it",
                              rank_, target.size, operation, from, source.size));
    }
    channel.ready->wait(queue, number, piece_ready);
    runtime::cuda::check(cudaMemcpyAsync(target.data, source.data, target.size, cudaMemcpyDefault,
                                         as_cuda(queue).stream()),
                         operation);
    channel.delivered->record(queue, number);
  }
  for (std::int64_t to = 0; to < ranks; ++to) {
    if (to != rank_ && piece(send, to).size > 0) {
      PeerGroup::Channel& channel = group_.channel(rank_, to);
      group_.meet(channel.delivered->enqueued(), channel.sent, rank_, to, operation);
      channel.delivered->wait(queue, channel.sent - 1, piece_delivered);
    }
  }
}

}  // namespace shardsolve::comm::cuda
