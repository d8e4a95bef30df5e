#include "comm/exchange_communicator.hpp"

#include <utility>

namespace shardsolve::comm {

ExchangeCommunicator::Pieces ExchangeCommunicator::pieces_of_broadcast(Bytes data,
                                                                       std::int64_t root) const {
  Pieces pieces{.send = nothing(), .receive = nothing()};
  if (rank_ == root) {
    pieces.send.assign(pieces.send.size(), data);
  } else {
    pieces.receive[static_cast<std::size_t>(root)] = data;
  }
  return pieces;
}

void ExchangeCommunicator::broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) {
  enqueue(queue, "broadcast", pieces_of_broadcast(data, root));
}

void ExchangeCommunicator::all_gather(runtime::Queue& queue, std::vector<Bytes> pieces) {
  std::vector<Bytes> send(pieces.size(), pieces[static_cast<std::size_t>(rank_)]);
  enqueue(queue, "all_gather", {.send = std::move(send), .receive = std::move(pieces)});
}

void ExchangeCommunicator::gather(runtime::Queue& queue, Bytes data, std::vector<Bytes> pieces,
                                  std::int64_t root) {
  if (rank_ == root) {
    enqueue(queue, "gather", {.send = nothing(), .receive = std::move(pieces)});
    return;
  }
  std::vector<Bytes> send = nothing();
  send[static_cast<std::size_t>(root)] = data;
  enqueue(queue, "gather", {.send = std::move(send), .receive = nothing()});
}

void ExchangeCommunicator::all_to_all(runtime::Queue& queue, std::vector<Bytes> send,
                                      std::vector<Bytes> receive) {
  enqueue(queue, "all_to_all", {.send = std::move(send), .receive = std::move(receive)});
}

}  // namespace shardsolve::comm
