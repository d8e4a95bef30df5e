#include "comm/tell_all.hpp"

#include "tests/support/in_all.hpp"
#include "tests/support/tcp_transports.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace shardsolve::testing {
namespace {

TEST(TellAll, TextsOfAnyLength_ArriveEverywhereByRank) {
  const std::vector<std::string> texts = {"", "a", std::string(5000, 'b'), std::string("c\0d", 3)};
  const auto heard = in_all(4, [&](comm::Transport& transport) {
    return comm::tell_all(transport, texts[static_cast<std::size_t>(transport.rank())]);
  });
  for (const std::vector<std::string>& one : heard) {
    EXPECT_EQ(one, texts);
  }
}

TEST(TellAll, WithoutAWordOfARank_NamesItWhenPatienceIsOver) {
  const Transports transports = socket_pairs(3, std::chrono::seconds(1));
  std::vector<std::optional<Error>> errors(2);
  std::vector<std::thread> processes;
  for (const std::size_t rank : {0U, 1U}) {
    processes.emplace_back([&, rank] {
      errors[rank] = thrown_by([&] { comm::tell_all(*transports[rank], "here"); });
    });
  }
  for (std::thread& process : processes) {
    process.join();
  }
  for (const std::optional<Error>& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::communication);
    EXPECT_THAT(error->what(), ::testing::HasSubstr("rank 2 has been silent for more than 1 s"));
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
