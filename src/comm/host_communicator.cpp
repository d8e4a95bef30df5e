#include "comm/host_communicator.hpp"

#include "runtime/host/host_queue.hpp"

#include <utility>

namespace shardsolve::comm {

void HostCommunicator::enqueue(runtime::Queue& queue, const char* operation, Pieces pieces) {
  const auto self = static_cast<std::size_t>(rank());
  pieces.send[self] = {};
  pieces.receive[self] = {};
  double bytes = 0.0;
  for (const Bytes& piece : pieces.receive) {
    bytes += static_cast<double>(piece.size);
  }
  auto& host_queue = static_cast<runtime::host::HostQueue&>(queue);
  auto traced = host_queue.tracing() ? trace(pieces) : std::vector<TraceMessage>{};
  host_queue.launch(
      {.name = operation, .bytes = bytes},
      [this, operation, pieces = std::move(pieces)] {
        exchange(operation, pieces.send, pieces.receive);
      },
      std::move(traced));
}

}  // namespace shardsolve::comm
