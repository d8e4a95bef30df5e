#include "comm/pulses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

namespace shardsolve::comm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

/// What `waiter` reports when nobody of `pulses` does anything.
std::optional<SilentRank> report_of(const Pulses& pulses, std::int64_t waiter, std::int64_t peer) {
  Watch watch(pulses, waiter, "test");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < end) {
    try {
      watch.look(peer);
    } catch (const SilentRank& silence) {
      return silence;
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  ADD_FAILURE() << "nobody was reported";
  return std::nullopt;
}

/// The rank that is reported.
std::int64_t reported_by(const Pulses& pulses, std::int64_t waiter, std::int64_t peer) {
  const auto report = report_of(pulses, waiter, peer);
  return report ? report->rank() : -1;
}

class PulsesTest : public ::testing::Test {
 protected:
  PulsesTest() { pulses_.set_silence_limit(milliseconds(30)); }
  Pulses pulses_{3};
};

TEST_F(PulsesTest, ChainOfWaits_EndsWithWhoWaitsForNobody) {
  pulses_.of(1).set_waiting_for(2);
  EXPECT_EQ(reported_by(pulses_, 0, 1), 2);
}

/// Rank 1 has stopped, and the last that it told is that it waits for rank 2, which waits for it.
TEST_F(PulsesTest, WaitThatIsOutOfDate_IsNotFollowedBackToItself) {
  pulses_.of(1).set_waiting_for(2);
  pulses_.of(2).set_waiting_for(1);
  EXPECT_EQ(reported_by(pulses_, 0, 1), 1);
  pulses_.of(2).set_waiting_for(1);
  EXPECT_EQ(reported_by(pulses_, 2, 1), 1);
}

TEST_F(PulsesTest, RanksThatWaitForEachOther_ReportAnotherOne) {
  pulses_.of(1).set_waiting_for(2);
  pulses_.of(2).set_waiting_for(0);
  EXPECT_EQ(reported_by(pulses_, 0, 1), 1);
}

TEST_F(PulsesTest, SilentRankOfThisProcess_IsSeenWhereItIs) {
  pulses_.of(1).beat("herk", 3);
  const auto report = report_of(pulses_, 0, 1);
  ASSERT_TRUE(report);
  EXPECT_THAT(report->what(), HasSubstr("last seen at step 3 in 'herk'"));
  EXPECT_THAT(report->what(), Not(HasSubstr("tells")));
}

/// What another process last told of its rank is as old as the time between two pulses.
TEST_F(PulsesTest, SilentRankOfAnotherProcess_MayHaveComeFurther) {
  pulses_.of(1).set_told();
  pulses_.of(1).show(7, "herk", 0);
  pulses_.set_silence_limit(milliseconds(100));
  const auto report = report_of(pulses_, 0, 1);
  ASSERT_TRUE(report);
  EXPECT_THAT(report->what(), HasSubstr("last seen at step 0 in 'herk'"));
  EXPECT_THAT(report->what(),
              HasSubstr("tells how far it is every 0.02 s: it may have come further"));
}

}  // namespace
}  // namespace shardsolve::comm
