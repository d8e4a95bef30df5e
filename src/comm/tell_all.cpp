#include "comm/tell_all.hpp"

#include "comm/patience.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace shardsolve::comm {
namespace {

/// Sends `own` to all others, and takes what each of them sends into its piece.
void exchange(Transport& transport, Bytes own, const std::vector<Bytes>& pieces) {
  using Clock = std::chrono::steady_clock;
  constexpr int tag = 0;
  std::vector<std::pair<std::int64_t, std::unique_ptr<Message>>> messages;
  for (std::int64_t peer = 0; peer < transport.ranks(); ++peer) {
    const Bytes piece = pieces[static_cast<std::size_t>(peer)];
    if (peer != transport.rank() && piece.size > 0) {
      messages.emplace_back(peer, transport.receive(peer, Transport::Channel::data, tag, piece));
    }
  }
  for (std::int64_t peer = 0; peer < transport.ranks(); ++peer) {
    if (peer != transport.rank() && own.size > 0) {
      messages.emplace_back(peer, transport.send(peer, Transport::Channel::data, tag, own));
    }
  }
  const std::optional<std::chrono::duration<double>> limit = transport.patience();
  const Clock::time_point begin = Clock::now();
  for (const auto& [peer, message] : messages) {
    for (Patience patience; !message->test(); patience.pause()) {
      if (limit && Clock::now() - begin > *limit) {
        throw Error(ErrorKind::communication,
                    fmt::format("rank {} has been silent for more than {:g} s while a mesh was "
                                "made: it was stopped, or its host is gone",
                                peer, limit->count()));
      }
    }
  }
}

}  // namespace

std::vector<std::string> tell_all(Transport& transport, const std::string& own) {
  const auto ranks = static_cast<std::size_t>(transport.ranks());
  std::uint64_t length = own.size();
  std::vector<std::uint64_t> lengths(ranks, 0);
  std::vector<Bytes> pieces(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    pieces[rank] = {&lengths[rank], sizeof(std::uint64_t)};
  }
  exchange(transport, {&length, sizeof length}, pieces);
  std::vector<std::string> texts(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    texts[rank].resize(lengths[rank]);
    pieces[rank] = {texts[rank].data(), texts[rank].size()};
  }
  std::string copy = own;
  exchange(transport, {copy.data(), copy.size()}, pieces);
  texts[static_cast<std::size_t>(transport.rank())] = own;
  return texts;
}

std::string first_said(Transport& transport, const std::string& own) {
  const std::vector<std::string> all = tell_all(transport, own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) {
      return fmt::format("rank {}: {}", rank, all[rank]);
    }
  }
  return "";
}

}  // namespace shardsolve::comm
