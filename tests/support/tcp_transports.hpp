/// Transports over sockets, all ends in one process.
#pragma once

#include "comm/tcp/lobby.hpp"
#include "comm/tcp/tcp_transport.hpp"
#include "tests/support/memory_transport.hpp"

#include <fmt/format.h>

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace shardsolve::testing {

using Transports = std::vector<std::unique_ptr<comm::Transport>>;

/// So many ranks, each connected to each by a pair of sockets of the system, which say that they
/// are on a host each.
inline Transports socket_pairs(
    std::int64_t ranks, std::optional<std::chrono::duration<double>> patience = std::nullopt) {
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::vector<comm::tcp::Peer>> peers(count);
  for (auto& of_rank : peers) {
    of_rank.resize(count);
  }
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = a + 1; b < count; ++b) {
      int ends[2] = {-1, -1};
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        throw std::runtime_error("no pair of sockets");
      }
      peers[a][b] = {comm::tcp::Socket(ends[0]), fmt::format("rank {} (the other end)", b)};
      peers[b][a] = {comm::tcp::Socket(ends[1]), fmt::format("rank {} (the other end)", a)};
    }
  }
  Transports all;
  for (std::size_t rank = 0; rank < count; ++rank) {
    all.push_back(std::make_unique<comm::tcp::TcpTransport>(
        static_cast<std::int64_t>(rank), std::move(peers[rank]), numbers(Hosts::one_each, ranks),
        patience));
  }
  return all;
}

/// The ranks at these lobbies, one each, which may be the same one several times.
inline Transports connect(const std::vector<comm::tcp::Lobby*>& lobbies, std::uint64_t mesh = 1) {
  std::vector<comm::tcp::Address> members;
  for (const comm::tcp::Lobby* lobby : lobbies) {
    members.push_back(lobby->address());
  }
  std::vector<std::future<std::unique_ptr<comm::tcp::TcpTransport>>> coming;
  for (std::size_t rank = 0; rank < lobbies.size(); ++rank) {
    coming.push_back(std::async(std::launch::async, [&, rank] {
      return lobbies[rank]->connect(members, static_cast<std::int64_t>(rank), mesh,
                                    std::chrono::seconds(20));
    }));
  }
  Transports all;
  for (auto& one : coming) {
    all.push_back(one.get());
  }
  return all;
}

}  // namespace shardsolve::testing
