// How processes find each other: lobbies of several "processes" in one.

#include "support/tcp_transports.hpp"
#include "support/thrown.hpp"

#include <shardsolve/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardsolve::testing {
namespace {

using comm::tcp::Address;
using comm::tcp::Lobby;
using comm::tcp::Socket;
using ::testing::HasSubstr;
using Channel = comm::Transport::Channel;
using std::chrono::milliseconds;

/// Each rank tells each other one who it is.
void expect_all_connected(const Transports& all) {
  const auto count = static_cast<std::int64_t>(all.size());
  for (std::int64_t from = 0; from < count; ++from) {
    for (std::int64_t to = 0; to < count; ++to) {
      if (from == to) {
        continue;
      }
      std::int64_t number = 10 * from + to;
      const auto sent = all[static_cast<std::size_t>(from)]->send(to, Channel::data, 0,
                                                                  {&number, sizeof(number)});
      std::int64_t got = -1;
      const auto received =
          all[static_cast<std::size_t>(to)]->receive(from, Channel::data, 0, {&got, sizeof(got)});
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!received->test() && std::chrono::steady_clock::now() < until) {
      }
      EXPECT_EQ(got, number);
    }
  }
}

/// A connection of somebody who knows the port.
Socket knock(const Address& address) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  where.sin_port = htons(static_cast<std::uint16_t>(address.port));
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&where), sizeof(where)), 0);
  return socket;
}

/// Whether the other end closes the connection without a word.
bool is_sent_away(const Socket& socket) {
  pollfd look{socket.get(), POLLIN, 0};
  char answer = 0;
  return ::poll(&look, 1, 20'000) == 1 && ::recv(socket.get(), &answer, 1, 0) <= 0;
}

TEST(Lobby, RanksOfSeveralProcesses_AreAllConnected) {
  Lobby a;
  Lobby b;
  Lobby c;
  expect_all_connected(connect({&a, &b, &c}));
}

TEST(Lobby, SeveralRanksOfOneProcess_AreAllConnected) {
  Lobby a;
  Lobby b;
  const Transports all = connect({&a, &b, &a, &b});
  expect_all_connected(all);
  EXPECT_EQ(all[3]->hosts(), std::vector<std::int64_t>(4, 0));
  EXPECT_EQ(all[3]->rank(), 3);
}

TEST(Lobby, SeveralMeshesOfTheSameProcesses_AreConnectedAlone) {
  Lobby a;
  Lobby b;
  const Transports first = connect({&a, &b}, 1);
  const Transports second = connect({&b, &a}, 2);
  expect_all_connected(first);
  expect_all_connected(second);
}

TEST(Lobby, GuestWithAWrongToken_IsSentAway) {
  Lobby a;
  Lobby b;
  Address wrong = a.address();
  wrong.token[2] ^= 1U;
  const auto error =
      thrown_by([&] { b.connect({wrong, b.address()}, 1, 1, std::chrono::seconds(20)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::communication);
  EXPECT_THAT(error->what(), HasSubstr("does not let us in"));
  EXPECT_THAT(error->what(), HasSubstr("rank 0 (process"));
  expect_all_connected(connect({&a, &b}));
}

TEST(Lobby, GuestWhoSaysSomethingElse_IsSentAwayAndTheOthersComeIn) {
  Lobby a;
  Lobby b;
  const Socket silent = knock(a.address());
  const Socket other = knock(a.address());
  const std::string words =
      "GET / HTTP/1.1\r\nHost: somebody\r\nAccept: everything, please\r\n\r\n";
  ASSERT_EQ(::send(other.get(), words.data(), words.size(), 0), static_cast<ssize_t>(words.size()));
  expect_all_connected(connect({&a, &b}));
  EXPECT_TRUE(is_sent_away(other));
}

TEST(Lobby, RankThatDoesNotCome_IsNamedInTime) {
  Lobby a;
  Lobby b;
  const auto error =
      thrown_by([&] { a.connect({a.address(), b.address()}, 0, 1, milliseconds(50)); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::communication);
  EXPECT_THAT(error->what(), HasSubstr("rank 1 (process"));
  EXPECT_THAT(error->what(), HasSubstr("not connected in time"));
}

TEST(Lobby, ProcessThatHasEnded_IsNamed) {
  Lobby b;
  const Address gone = std::make_unique<Lobby>()->address();
  const auto error =
      thrown_by([&] { b.connect({gone, b.address()}, 1, 1, std::chrono::seconds(20)); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("rank 0 (process"));
  EXPECT_THAT(error->what(), HasSubstr("refused"));
}

TEST(Lobby, Tokens_AreDifferent) {
  const Lobby a;
  const Lobby b;
  EXPECT_NE(a.address().token, b.address().token);
  EXPECT_EQ(a.address().host, b.address().host);
}

}  // namespace
}  // namespace shardsolve::testing
