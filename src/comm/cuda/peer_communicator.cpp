#include "comm/cuda/peer_communicator.hpp"

#include "comm/cuda/direct_memory.hpp"
#include "comm/cuda/peer_window.hpp"
#include "comm/cuda/wait_sites.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

namespace shardsolve::comm::cuda {
namespace {

using runtime::cuda::as_cuda;

}  // namespace

std::unique_ptr<Window> PeerCommunicator::make_window(Bytes memory) {
  return std::make_unique<PeerWindow>(group_, windows_made_++, rank(), memory);
}

std::unique_ptr<PeerMemory> PeerCommunicator::make_peer_memory(Bytes memory) {
  if (!group_.direct()) {
    return nullptr;
  }
  return std::make_unique<DirectMemory>(group_, windows_made_++, rank(), memory);
}

void PeerCommunicator::begin_call() {
  windows_made_ = 0;
  ExchangeCommunicator::begin_call();
  group_.begin_call(rank());
}

void PeerCommunicator::enqueue(runtime::Queue& queue, const char* operation, Pieces pieces) {
  runtime::WorkInfo info{.name = operation};
  bool any = false;
  for (std::int64_t peer = 0; peer < ranks(); ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    if (peer == rank()) {
      continue;
    }
    const std::size_t incoming = pieces.receive[at].size;
    any = any || pieces.send[at].size > 0 || incoming > 0;
    if (incoming > 0) {
      info.bytes += static_cast<double>(incoming);
      info.link = group_.link(peer, rank());
    }
  }
  if (any) {
    as_cuda(queue).launch(
        info, [&] { exchange(queue, operation, pieces.send, pieces.receive); },
        as_cuda(queue).tracing() ? trace(pieces) : std::vector<TraceMessage>{});
  }
}

void PeerCommunicator::exchange(runtime::Queue& queue, const char* operation,
                                const std::vector<Bytes>& send, const std::vector<Bytes>& receive) {
  const std::int64_t self = rank();
  const auto piece = [](const std::vector<Bytes>& pieces, std::int64_t rank) {
    return pieces[static_cast<std::size_t>(rank)];
  };
  for (std::int64_t to = 0; to < ranks(); ++to) {
    if (to == self || piece(send, to).size == 0) {
      continue;
    }
    PeerGroup::Channel& channel = group_.channel(self, to);
    group_.offer(self, to, piece(send, to));
    channel.ready->record(queue, channel.sent++);
  }
  for (std::int64_t distance = 1; distance < ranks(); ++distance) {
    const std::int64_t from = (self + distance) % ranks();  // not all at the same source at once
    const Bytes target = piece(receive, from);
    if (target.size == 0) {
      continue;
    }
    PeerGroup::Channel& channel = group_.channel(from, self);
    const std::uint32_t number = channel.received++;
    group_.meet(channel.ready->enqueued(), number + 1, self, from, operation);
    const Bytes source = group_.offered(from, self);
    if (source.size != target.size) {
      throw Error(ErrorKind::internal,
                  fmt::format("rank {} expects {} bytes by {} from rank {}, which sent {}: this is "
                              "a bug of shardsolve, please report it",
                              self, target.size, operation, from, source.size));
    }
    channel.ready->wait(queue, number, sites::piece_ready);
    runtime::cuda::check(cudaMemcpyAsync(target.data, source.data, target.size, cudaMemcpyDefault,
                                         as_cuda(queue).stream()),
                         operation);
    channel.delivered->record(queue, number);
  }
  for (std::int64_t to = 0; to < ranks(); ++to) {
    if (to != self && piece(send, to).size > 0) {
      PeerGroup::Channel& channel = group_.channel(self, to);
      group_.meet(channel.delivered->enqueued(), channel.sent, self, to, operation);
      channel.delivered->wait(queue, channel.sent - 1, sites::piece_delivered);
    }
  }
}

}  // namespace shardsolve::comm::cuda
