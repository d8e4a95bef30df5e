#include "comm/host_communicator.hpp"

#include "runtime/host/host_queue.hpp"

#include <utility>

namespace shardsolve::comm {

void HostCommunicator::broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) {
  auto send = nothing();
  auto receive = nothing();
  if (rank_ == root) {
    send.assign(send.size(), data);
  } else {
    receive[static_cast<std::size_t>(root)] = data;
  }
  enqueue(queue, "broadcast", std::move(send), std::move(receive));
}

void HostCommunicator::all_gather(runtime::Queue& queue, std::vector<Bytes> pieces) {
  std::vector<Bytes> send(pieces.size(), pieces[static_cast<std::size_t>(rank_)]);
  enqueue(queue, "all_gather", std::move(send), std::move(pieces));
}

void HostCommunicator::gather(runtime::Queue& queue, Bytes data, std::vector<Bytes> pieces,
                              std::int64_t root) {
  auto send = nothing();
  if (rank_ == root) {
    enqueue(queue, "gather", std::move(send), std::move(pieces));
  } else {
    send[static_cast<std::size_t>(root)] = data;
    enqueue(queue, "gather", std::move(send), nothing());
  }
}

void HostCommunicator::all_to_all(runtime::Queue& queue, std::vector<Bytes> send,
                                  std::vector<Bytes> receive) {
  enqueue(queue, "all_to_all", std::move(send), std::move(receive));
}

void HostCommunicator::enqueue(runtime::Queue& queue, const char* operation,
                               std::vector<Bytes> send, std::vector<Bytes> receive) {
  send[static_cast<std::size_t>(rank_)] = {};
  receive[static_cast<std::size_t>(rank_)] = {};
  double bytes = 0.0;
  for (const Bytes& piece : receive) {
    bytes += static_cast<double>(piece.size);
  }
  auto& host_queue = static_cast<runtime::host::HostQueue&>(queue);
  auto traced = host_queue.tracing() ? messages_.next(send, receive) : std::vector<TraceMessage>{};
  host_queue.launch(
      {.name = operation, .bytes = bytes},
      [this, operation, send = std::move(send), receive = std::move(receive)] {
        exchange(operation, send, receive);
      },
      std::move(traced));
}

}  // namespace shardsolve::comm
