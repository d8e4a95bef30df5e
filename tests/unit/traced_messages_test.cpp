// Both ends of a message count it alike.

#include "comm/traced_messages.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

namespace shardsolve::comm {
namespace {

Bytes bytes(std::size_t size) { return {nullptr, size}; }

TEST(ExchangeMessages, BothEnds_HaveTheSameNumberAndBytes) {
  ExchangeMessages zero(2, 0);
  ExchangeMessages one(2, 1);
  for (std::size_t size = 1; size <= 3; ++size) {
    const auto sent = zero.next({bytes(7), bytes(size)}, {{}, {}});
    const auto received = one.next({{}, {}}, {bytes(size), bytes(7)});
    ASSERT_EQ(sent.size(), 1U) << "not what a rank keeps";
    ASSERT_EQ(received.size(), 1U);
    for (const TraceMessage& end : {sent[0], received[0]}) {
      EXPECT_EQ(end.from, 0);
      EXPECT_EQ(end.to, 1);
      EXPECT_EQ(end.number, size);
      EXPECT_EQ(end.bytes, static_cast<double>(size));
    }
  }
  one.begin_call();
  EXPECT_EQ(one.next({{}, {}}, {bytes(1), {}}).at(0).number, 1U);
}

TEST(ExchangeMessages, ThereAndBack_AreCountedForThemselves) {
  ExchangeMessages zero(3, 0);
  zero.next({{}, bytes(1), {}}, {{}, {}, {}});
  const auto ends = zero.next({{}, bytes(1), {}}, {{}, bytes(2), bytes(3)});
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_EQ(ends[0].number, 2U);
  EXPECT_EQ(ends[1].number, 1U);
  EXPECT_EQ(ends[2].number, 1U);
}

TEST(WindowNumber, OfEveryNotice_IsItsOwnAndNoExchanges) {
  std::set<std::uint64_t> numbers;
  for (const WindowNotice notice : {WindowNotice::published, WindowNotice::released}) {
    for (const std::size_t window : {0U, 1U, 63U}) {
      for (const std::int64_t root : {0, 1, 1000}) {
        for (const std::uint32_t count : {0U, 1U, ~0U}) {
          numbers.insert(window_number(notice, window, root, count));
        }
      }
    }
  }
  EXPECT_EQ(numbers.size(), 2U * 3 * 3 * 3);
  EXPECT_GT(*numbers.begin(), std::uint64_t{~0U});
}

}  // namespace
}  // namespace shardsolve::comm
