#include "comm/process_communicator.hpp"

#include "comm/broadcast_ways.hpp"
#include "comm/copy_window.hpp"

#include <utility>

namespace shardsolve::comm {

ProcessCommunicator::ProcessCommunicator(ProcessGroup& group, const Pulses& pulses,
                                         std::unique_ptr<HostBoard> board)
    : HostCommunicator(group.ranks(), group.rank()), group_(group) {
  if (board) {
    peers_.emplace(group, pulses, std::move(board));
  }
  const BroadcastWays ways(group.hosts());
  for (std::int64_t root = 0; root < ranks(); ++root) {
    Relay relay{.source = ways.source(root, rank()), .readers = {}};
    for (std::int64_t reader = 0; reader < ranks(); ++reader) {
      if (reader != root && ways.source(root, reader) == rank()) {
        relay.readers.push_back(reader);
      }
    }
    relays_.push_back(std::move(relay));
  }
}

void ProcessCommunicator::broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) {
  const Relay& relay = relays_[static_cast<std::size_t>(root)];
  if (rank() != root) {
    auto receive = nothing();
    receive[static_cast<std::size_t>(relay.source)] = data;
    enqueue(queue, "broadcast", {.send = nothing(), .receive = std::move(receive)});
  }
  if (rank() == root || !relay.readers.empty()) {
    auto send = nothing();
    for (const std::int64_t reader : relay.readers) {
      send[static_cast<std::size_t>(reader)] = data;
    }
    enqueue(queue, "broadcast", {.send = std::move(send), .receive = nothing()});
  }
}

std::unique_ptr<Window> ProcessCommunicator::make_window(Bytes memory) {
  std::unique_ptr<Window> in_place = peers_ ? peers_->make_window(memory) : nullptr;
  return in_place ? std::move(in_place) : std::make_unique<CopyWindow>(*this, rank(), memory);
}

Bytes ProcessCommunicator::make_workspace(std::size_t bytes) {
  return peers_ ? peers_->make_workspace(bytes) : Bytes{};
}

Bytes ProcessCommunicator::workspace() const { return peers_ ? peers_->workspace() : Bytes{}; }

void ProcessCommunicator::begin_call() {
  HostCommunicator::begin_call();
  if (peers_) {
    peers_->begin_call();
  }
}

void ProcessCommunicator::end_call() {
  if (peers_) {
    peers_->end_call();
  }
}

}  // namespace shardsolve::comm
