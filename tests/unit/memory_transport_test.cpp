// The transport that tests of processes rest on keeps the promises of comm::Transport.

#include "tests/support/memory_transport.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <iterator>
#include <memory>
#include <vector>

namespace shardsolve::testing {
namespace {

using Channel = comm::Transport::Channel;

comm::Bytes bytes_of(std::vector<char>& memory) { return {memory.data(), memory.size()}; }

/// With every message eager, and with none.
class MemoryTransportTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  std::shared_ptr<MemoryPost> post_ = std::make_shared<MemoryPost>(2, GetParam());
  MemoryTransport a_{post_, 0};
  MemoryTransport b_{post_, 1};
};

TEST_P(MemoryTransportTest, Messages_ArriveInTheirOrderOnTheirChannelAndTag) {
  std::vector<char> one{'1', '1'};
  std::vector<char> two{'2'};
  std::vector<char> other{'o'};
  const auto sent_one = a_.send(1, Channel::data, 5, bytes_of(one));
  const auto sent_other = a_.send(1, Channel::control, 5, bytes_of(other));
  const auto sent_two = a_.send(1, Channel::data, 5, bytes_of(two));
  EXPECT_EQ(sent_one->test(), GetParam() > 0);
  EXPECT_EQ(b_.arrived(0, 5), 2);
  EXPECT_EQ(b_.arrived(0, 6), -1);
  EXPECT_EQ(a_.arrived(1, 5), -1);

  std::vector<char> room(3);
  for (const std::vector<char>& expected : {one, two}) {
    const auto message = b_.receive(0, Channel::data, 5, bytes_of(room));
    ASSERT_TRUE(message->test());
    ASSERT_EQ(message->received(), expected.size());
    EXPECT_EQ(std::vector<char>(room.begin(), room.begin() + std::ssize(expected)), expected);
  }
  EXPECT_TRUE(sent_one->test());
  EXPECT_TRUE(sent_two->test());
  EXPECT_EQ(b_.arrived(0, 5), -1);
}

TEST_P(MemoryTransportTest, MessageThatIsLargerThanItsRoom_IsSaidToBe) {
  std::vector<char> large(10, 'x');
  std::vector<char> room(4, ' ');
  const auto message = b_.receive(0, Channel::data, 0, bytes_of(room));
  EXPECT_FALSE(message->test());
  const auto sent = a_.send(1, Channel::data, 0, bytes_of(large));
  EXPECT_TRUE(sent->test());
  ASSERT_TRUE(message->test());
  EXPECT_GT(message->received(), room.size());
}

TEST_P(MemoryTransportTest, ReceiveThatIsGivenUp_LeavesTheMessageToTheNext) {
  std::vector<char> word{'w'};
  std::vector<char> room(1);
  const auto given_up = b_.receive(0, Channel::data, 0, bytes_of(room));
  given_up->give_up();
  EXPECT_TRUE(given_up->test());
  EXPECT_TRUE(given_up->given_up());
  const auto sent = a_.send(1, Channel::data, 0, bytes_of(word));
  const auto taken = b_.receive(0, Channel::data, 0, bytes_of(room));
  EXPECT_TRUE(taken->test());
  EXPECT_FALSE(taken->given_up());
  taken->give_up();  // too late: nothing happens
  EXPECT_FALSE(taken->given_up());
  EXPECT_EQ(room, word);
}

INSTANTIATE_TEST_SUITE_P(Protocols, MemoryTransportTest, ::testing::Values(0, 1000),
                         [](const auto& instance) {
                           return instance.param == 0 ? "rendezvous" : "eager";
                         });

}  // namespace
}  // namespace shardsolve::testing
