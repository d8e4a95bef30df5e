// Messages by stream sockets, both ends in this thread.

#include "support/tcp_transports.hpp"
#include "support/thrown.hpp"

#include <shardsolve/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

namespace shardsolve::testing {
namespace {

using ::testing::HasSubstr;
using Channel = comm::Transport::Channel;
using Message = std::unique_ptr<comm::Message>;
using Data = std::vector<std::uint8_t>;

/// More than the system takes over at once.
constexpr std::size_t large = (std::size_t{5} << 20U) + 3;

Data pattern(std::size_t size, int seed = 0) {
  Data data(size);
  for (std::size_t i = 0; i < size; ++i) {
    data[i] = static_cast<std::uint8_t>(i * 7 + i / 251 + static_cast<std::size_t>(seed));
  }
  return data;
}

comm::Bytes bytes(Data& data) { return {data.data(), data.size()}; }

class TcpTransport : public ::testing::Test {
 protected:
  Message send(Data& data, int tag = 0, Channel channel = Channel::data) {
    return ends_[0]->send(1, channel, tag, bytes(data));
  }
  Message receive(Data& room, int tag = 0, Channel channel = Channel::data) {
    return ends_[1]->receive(0, channel, tag, bytes(room));
  }
  /// Until all are complete.
  static void finish(const std::vector<comm::Message*>& messages) {
    for (int looks = 0; looks < 1'000'000; ++looks) {
      bool all = true;
      for (comm::Message* message : messages) {
        all = message->test() && all;
      }
      if (all) {
        return;
      }
    }
    FAIL() << "messages do not arrive";
  }
  /// So often that all that can move has moved.
  static void look(comm::Message& message) {
    for (int looks = 0; looks < 100; ++looks) {
      message.test();
    }
  }

  Transports ends_ = socket_pairs(2);
};

TEST_F(TcpTransport, MessageOfAnySize_ArrivesWhereItIsWaitedForAndWhereItIsNot) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{70'000}, large}) {
    for (const bool receive_first : {true, false}) {
      SCOPED_TRACE(::testing::Message() << size << " bytes, receive first: " << receive_first);
      Data data = pattern(size);
      Data room(size + 5, 0xAA);
      Message received = receive_first ? receive(room) : nullptr;
      const Message sent = send(data);
      if (!receive_first) {
        ends_[1]->arrived(0, 0);  // looks, and takes what it sees aside
        received = receive(room);
      }
      finish({sent.get(), received.get()});
      EXPECT_EQ(received->received(), size);
      EXPECT_FALSE(received->given_up());
      Data expected = data;
      expected.resize(size + 5, 0xAA);
      EXPECT_EQ(room, expected);
    }
  }
}

TEST_F(TcpTransport, LargeMessagesInBothDirections_PassEachOther) {
  Data there = pattern(large, 1);
  Data back = pattern(large, 2);
  Data room_there(large);
  Data room_back(large);
  const Message s1 = send(there);
  const Message s2 = ends_[1]->send(0, Channel::data, 0, bytes(back));
  const Message r1 = receive(room_there);
  const Message r2 = ends_[0]->receive(1, Channel::data, 0, bytes(room_back));
  finish({s1.get(), s2.get(), r1.get(), r2.get()});
  EXPECT_EQ(room_there, there);
  EXPECT_EQ(room_back, back);
}

TEST_F(TcpTransport, MessagesOfOneTagAndChannel_ArriveInTheOrderOfSending) {
  std::vector<Data> data;
  std::vector<Message> messages;
  const auto line = [](int i) { return i % 3; };  // tag 0, tag 1, and tag 0 of the other channel
  const auto tag = [&](int i) { return line(i) == 1 ? 1 : 0; };
  const auto channel = [&](int i) { return line(i) == 2 ? Channel::control : Channel::data; };
  for (int i = 0; i < 30; ++i) {
    data.push_back(pattern(100, i));
  }
  for (int i = 0; i < 30; ++i) {
    messages.push_back(send(data[static_cast<std::size_t>(i)], tag(i), channel(i)));
  }
  for (const int first : {2, 1, 0}) {  // the last line first
    for (int i = first; i < 30; i += 3) {
      Data room(100);
      const Message received = receive(room, tag(i), channel(i));
      finish({received.get()});
      EXPECT_EQ(room, data[static_cast<std::size_t>(i)]) << i;
    }
  }
}

TEST_F(TcpTransport, MessageThatIsLargerThanTheRoom_IsReportedAsLarger) {
  for (const bool receive_first : {true, false}) {
    Data data = pattern(100);
    Data next = pattern(10, 5);
    Data room(99, 0xAA);
    Message received = receive_first ? receive(room) : nullptr;
    const Message s1 = send(data);
    const Message s2 = send(next);
    received = received ? std::move(received) : receive(room);
    finish({received.get()});
    EXPECT_GT(received->received(), room.size());
    EXPECT_EQ(room, Data(99, 0xAA));
    Data next_room(10);
    finish({receive(next_room).get()});
    EXPECT_EQ(next_room, next);
  }
}

TEST_F(TcpTransport, Arrived_IsTheSizeOfTheFirstDataMessageThatNobodyWaitsFor) {
  EXPECT_EQ(ends_[1]->arrived(0, 0), -1);
  Data first = pattern(17);
  Data second = pattern(18);
  Data note = pattern(19);
  const Message s1 = send(note, 3, Channel::control);
  const Message s2 = send(first, 3);
  const Message s3 = send(second, 3);
  EXPECT_EQ(ends_[1]->arrived(0, 4), -1);
  EXPECT_EQ(ends_[1]->arrived(0, 3), 17);
}

TEST_F(TcpTransport, ReceiveThatIsGivenUp_TakesNoMessage) {
  Data room(10);
  const Message received = receive(room);
  received->give_up();
  EXPECT_TRUE(received->test());
  EXPECT_TRUE(received->given_up());
  Data data = pattern(10);
  const Message sent = send(data);
  Data next(10);
  finish({receive(next).get()});
  EXPECT_EQ(next, data);
  EXPECT_EQ(room, Data(10));
}

TEST_F(TcpTransport, ReceiveThatHasBegun_IsNotGivenUp) {
  Data data = pattern(large);
  Data room(large);
  const Message received = receive(room);
  const Message sent = send(data);
  look(*received);
  received->give_up();
  finish({sent.get(), received.get()});
  EXPECT_FALSE(received->given_up());
  EXPECT_EQ(room, data);
}

TEST_F(TcpTransport, SendThatGoesAwayHalfway_ArrivesAllTheSame) {
  auto data = std::make_unique<Data>(pattern(large));
  const Data expected = *data;
  send(*data).reset();
  std::fill(data->begin(), data->end(), std::uint8_t{0});
  data.reset();
  Data next = pattern(10);
  const Message sent = send(next);
  Data room(large);
  const Message received = receive(room);
  finish({received.get(), sent.get()});
  EXPECT_EQ(room, expected);
  Data next_room(10);
  finish({receive(next_room).get()});
  EXPECT_EQ(next_room, next);
}

TEST_F(TcpTransport, ReceiveThatGoesAwayHalfway_LeavesTheNextMessageWhole) {
  Data data = pattern(large);
  const Message sent = send(data);
  {
    Data room(large);
    const Message received = receive(room);
    look(*received);
    ASSERT_FALSE(sent->test());
  }
  Data next = pattern(10);
  const Message after = send(next);
  Data room(10);
  const Message received = receive(room);
  finish({sent.get(), after.get(), received.get()});
  EXPECT_EQ(room, next);
}

TEST_F(TcpTransport, EndThatIsClosed_IsNamedWhenItsLastMessageIsThere) {
  Data data = pattern(70'000);
  {
    const Message sent = send(data);
    ASSERT_TRUE(sent->test());
  }
  ends_[0].reset();
  Data room(70'000);
  finish({receive(room).get()});
  EXPECT_EQ(room, data);
  const Message more = receive(room);
  const auto error = thrown_by([&] { look(*more); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::communication);
  EXPECT_THAT(error->what(), HasSubstr("rank 0 (the other end) was closed"));
  EXPECT_TRUE(thrown_by([&] { ends_[1]->send(0, Channel::data, 0, bytes(data)); }));
  EXPECT_TRUE(thrown_by([&] { ends_[1]->arrived(0, 0); }));
}

TEST_F(TcpTransport, EndThatIsClosedInAMessage_FailsTheReceive) {
  Data data = pattern(large);
  {
    const Message sent = send(data);
    ASSERT_FALSE(sent->test());
  }
  Data room(large);
  const Message received = receive(room);
  look(*received);
  ends_[0].reset();
  EXPECT_TRUE(thrown_by([&] { look(*received); }));
}

TEST_F(TcpTransport, EndThatIsClosedWithUnreadData_IsNamedAsClosedToo) {
  Data data = pattern(10);
  const Message sent = send(data);
  ASSERT_TRUE(sent->test());
  ends_[1].reset();
  const auto error = thrown_by([&] { ends_[0]->arrived(1, 0); });
  ASSERT_TRUE(error);
  EXPECT_THAT(error->what(), HasSubstr("rank 1 (the other end) was closed"));
}

TEST_F(TcpTransport, EndThatIsAbandoned_IsAsIfClosedForTheOther) {
  ends_[0]->abandon();
  Data room(10);
  const Message received = receive(room);
  EXPECT_TRUE(thrown_by([&] { look(*received); }));
}

}  // namespace
}  // namespace shardsolve::testing
