#include "runtime/host/one_way_counter.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace shardsolve::runtime::host {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

TEST(OneWayCounter, TargetThatIsReached_IsNotWaitedFor) {
  OneWayCounter counter;
  counter.wait(0);
  counter.store(5);
  for (const std::uint32_t target : {0U, 4U, 5U}) {
    counter.wait(target);
    EXPECT_TRUE(counter.wait_for(target, milliseconds(0)));
  }
  EXPECT_EQ(counter.load(), 5U);
}

TEST(OneWayCounter, TargetThatIsNotReached_IsGivenUpAfterTheLimit) {
  OneWayCounter counter;
  counter.store(5);
  for (const std::uint32_t target : {6U, 1000U}) {
    const auto begin = Clock::now();
    EXPECT_FALSE(counter.wait_for(target, milliseconds(30)));
    EXPECT_GE(Clock::now() - begin, milliseconds(30));
  }
}

TEST(OneWayCounter, RaisedByAnotherThread_WakesAllWaiters) {
  OneWayCounter counter;
  int written = 0;  // published by the counter alone
  std::vector<std::thread> waiters;
  std::vector<int> seen(4, -1);
  for (int& one : seen) {
    waiters.emplace_back([&counter, &written, &one] {
      counter.wait(3);
      one = written;
    });
  }
  for (std::uint32_t count = 1; count <= 3; ++count) {
    std::this_thread::sleep_for(milliseconds(5));
    written = count == 3 ? 42 : written;
    counter.store(count);
  }
  for (std::thread& waiter : waiters) {
    waiter.join();
  }
  EXPECT_EQ(seen, std::vector<int>(4, 42));
}

/// A queue that has done four thousand million pieces of work goes on.
TEST(OneWayCounter, BeyondTheLargestCount_GoesOnFromZero) {
  OneWayCounter counter;
  counter.store(0xffffffffU);
  EXPECT_TRUE(counter.wait_for(0xfffffff0U, milliseconds(0)));
  EXPECT_FALSE(counter.wait_for(0U, milliseconds(1)));
  counter.store(0);
  EXPECT_EQ(counter.load(), 0U);
  EXPECT_TRUE(counter.wait_for(0xffffffffU, milliseconds(0)));
  EXPECT_TRUE(counter.wait_for(0U, milliseconds(0)));
  EXPECT_FALSE(counter.wait_for(1U, milliseconds(1)));
}

TEST(OneWayCounter, Reset_BeginsAtZero) {
  OneWayCounter counter;
  counter.store(7);
  counter.reset();
  EXPECT_EQ(counter.load(), 0U);
  EXPECT_FALSE(counter.wait_for(1, milliseconds(1)));
}

}  // namespace
}  // namespace shardsolve::runtime::host
