#include "comm/tell_all.hpp"

#include "tests/support/memory_transport.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace shardsolve::testing {
namespace {

/// What call(transport) returns in the process of each rank.
template <class Call>
auto in_all(std::int64_t ranks, Call call) {
  constexpr std::size_t eager = 64;
  const auto post = std::make_shared<MemoryPost>(ranks, eager);
  std::vector<decltype(call(std::declval<comm::Transport&>()))> results(
      static_cast<std::size_t>(ranks));
  std::vector<std::thread> processes;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    processes.emplace_back([&, rank] {
      MemoryTransport transport(post, rank);
      results[static_cast<std::size_t>(rank)] = call(transport);
    });
  }
  for (std::thread& process : processes) {
    process.join();
  }
  EXPECT_TRUE(post->in_good_order());
  return results;
}

TEST(TellAll, TextsOfAnyLength_ArriveEverywhereByRank) {
  const std::vector<std::string> texts = {"", "a", std::string(5000, 'b'), std::string("c\0d", 3)};
  const auto heard = in_all(4, [&](comm::Transport& transport) {
    return comm::tell_all(transport, texts[static_cast<std::size_t>(transport.rank())]);
  });
  for (const std::vector<std::string>& one : heard) {
    EXPECT_EQ(one, texts);
  }
}

TEST(TellAll, OneProcess_HearsItself) {
  const auto heard =
      in_all(1, [](comm::Transport& transport) { return comm::tell_all(transport, "alone"); });
  EXPECT_EQ(heard.front(), std::vector<std::string>{"alone"});
}

TEST(TellAll, FirstThatIsSaid_IsTheSameEverywhere) {
  for (const std::vector<std::string>& texts :
       {std::vector<std::string>{"", "b", "c"}, {"", "", ""}, {"a", "", ""}}) {
    const std::string expected = texts[0] == "a"    ? "rank 0: a"
                                 : texts[1].empty() ? ""
                                                    : "rank 1: b";
    for (const std::string& said : in_all(3, [&](comm::Transport& transport) {
           return comm::first_said(transport, texts[static_cast<std::size_t>(transport.rank())]);
         })) {
      EXPECT_EQ(said, expected);
    }
  }
}

}  // namespace
}  // namespace shardsolve::testing
