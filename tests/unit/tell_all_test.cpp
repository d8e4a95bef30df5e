#include "comm/tell_all.hpp"

#include "tests/support/in_all.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
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
