#include "comm/data_messages.hpp"

#include "comm/patience.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

namespace shardsolve::comm {
namespace {

constexpr std::chrono::milliseconds look_interval(20);

template <class Values>
auto& at(Values& by_rank, std::int64_t rank) {
  return by_rank[static_cast<std::size_t>(rank)];
}

/// Where the transport fails nobody knows what has arrived: the process at the other end is lost.
template <class Call>
auto transfer(std::int64_t peer, const std::function<void(std::int64_t)>& on_loss, Call call) {
  try {
    return call();
  } catch (const Error&) {
    on_loss(peer);
    throw;
  }
}

}  // namespace

DataMessages::DataMessages(Transport& transport)
    : transport_(transport),
      sent_(static_cast<std::size_t>(transport.ranks()), 0),
      received_(static_cast<std::size_t>(transport.ranks()), 0) {}

void DataMessages::begin_call(bool traced) {
  ++call_;
  traced_ = traced;
  sent_.assign(sent_.size(), 0);
  received_.assign(received_.size(), 0);
  leftovers_.clear();
}

void DataMessages::exchange(const Pulses& pulses, const char* operation, const Bodies& bodies,
                            const std::function<void(std::int64_t rank)>& on_loss) {
  if (pulses.of(transport_.rank()).failed()) {
    throw runtime::Abandoned{};
  }
  std::vector<Piece> pieces;
  pieces.reserve(2 * sent_.size());
  try {
    begin(pieces, bodies, on_loss);
    for (Piece& piece : pieces) {
      complete(piece, pulses, operation, on_loss);
    }
  } catch (const SilentRank& silence) {
    on_loss(silence.rank());
    keep_leftovers(std::move(pieces));
    throw;
  } catch (...) {
    keep_leftovers(std::move(pieces));
    throw;
  }
}

void DataMessages::begin(std::vector<Piece>& pieces, const Bodies& bodies,
                         const std::function<void(std::int64_t)>& on_loss) {
  // Receives first: what arrives goes straight to its place.
  for (const bool is_receive : {true, false}) {
    for (std::int64_t peer = 0; peer < transport_.ranks(); ++peer) {
      const Bytes& bytes = at(is_receive ? bodies.receive : bodies.send, peer);
      if (peer == transport_.rank() || bytes.size == 0) {
        continue;
      }
      constexpr auto channel = Transport::Channel::data;
      pieces.push_back({peer, is_receive, bytes.size, bodies.keeps, transfer(peer, on_loss, [&] {
                          return is_receive ? transport_.receive(peer, channel, tag(traced_), bytes)
                                            : transport_.send(peer, channel, tag(traced_), bytes);
                        })});
      at(sent_, peer) += is_receive ? 0 : 1;
    }
  }
}

void DataMessages::complete(Piece& piece, const Pulses& pulses, const char* operation,
                            const std::function<void(std::int64_t)>& on_loss) {
  Watch watch(pulses, transport_.rank(), operation);
  auto next_look = Clock::now() + look_interval;
  const auto done = [&] {
    return transfer(piece.peer, on_loss, [&] { return piece.message->test(); });
  };
  for (Patience patience; !done(); patience.pause()) {
    if (Clock::now() > next_look) {
      next_look = Clock::now() + look_interval;
      watch.look(piece.peer);
    }
  }
  const std::unique_ptr<Message> message = std::move(piece.message);
  if (!piece.is_receive) {
    return;
  }
  ++at(received_, piece.peer);
  const std::size_t got = message->received();
  if (got != piece.size) {
    throw Error(ErrorKind::internal,
                fmt::format("rank {} expects {} bytes by {} from rank {}, which sent {}: this is a "
                            "bug of shardsolve, please report it",
                            transport_.rank(), piece.size, operation, piece.peer,
                            got > piece.size ? "more" : std::to_string(got)));
  }
}

void DataMessages::keep_leftovers(std::vector<Piece> pieces) {
  for (Piece& piece : pieces) {
    if (piece.message) {
      leftovers_.push_back(std::move(piece));
    }
  }
}

bool DataMessages::settle(const std::vector<Sent>& sent, Clock::time_point deadline,
                          const std::function<void()>& show_life) {
  const auto await = [&](const auto& done) {
    for (Patience patience; !done(); patience.pause()) {
      if (Clock::now() > deadline) {
        throw Error(ErrorKind::communication, "a message of a call that failed is not taken");
      }
      show_life();
    }
  };
  try {
    for (Piece& leftover : leftovers_) {
      if (leftover.is_receive) {
        leftover.message->give_up();
        await([&] { return leftover.message->test(); });
        at(received_, leftover.peer) += leftover.message->given_up() ? 0 : 1;
      }
    }
    for (const Sent& one : sent) {
      for (std::uint64_t& received = at(received_, one.from); received < one.messages; ++received) {
        drop_message(one, await);
      }
    }
    for (Piece& leftover : leftovers_) {
      await([&] { return leftover.message->test(); });
    }
  } catch (const std::exception&) {  // of the transport, or there is no memory for a message
    return false;
  }
  leftovers_.clear();
  return true;
}

/// Takes a message that nobody wants. One that does not come to its end keeps its memory.
template <class Await>
void DataMessages::drop_message(const Sent& sent, const Await& await) {
  std::int64_t size = -1;
  await([&] { return (size = transport_.arrived(sent.from, tag(sent.traced))) >= 0; });
  const auto unwanted = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(size));
  leftovers_.reserve(leftovers_.size() + 1);  // a message that is begun has to be kept
  leftovers_.push_back({sent.from, true, unwanted->size(), unwanted,
                        transport_.receive(sent.from, Transport::Channel::data, tag(sent.traced),
                                           {unwanted->data(), unwanted->size()})});
  await([&] { return leftovers_.back().message->test(); });
  leftovers_.pop_back();
}

}  // namespace shardsolve::comm
