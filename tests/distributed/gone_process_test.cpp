// What a process hears of another one that is gone.

#include "comm/process_group.hpp"
#include "comm/pulses.hpp"
#include "support/tcp_transports.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

using ::testing::HasSubstr;

/// What is done once so that nobody waits for a GPU, that GPU may undo before it is stopped.
TEST(GoneProcess, WhileTheCallGoesOn_IsToldAgainAndAgain) {
  Transports transports = socket_pairs(2);
  const comm::Pulses pulses(2);
  std::promise<void> often;
  comm::ProcessGroup group(std::move(transports[0]));
  group.attach(pulses,
               [&often, &pulse = pulses.of(0), told = 0](const std::exception_ptr&) mutable {
                 pulse.set_failed(true);
                 if (++told == 3) {
                   often.set_value();
                 }
               });
  group.begin_call({}, false);
  transports[1].reset();
  EXPECT_EQ(often.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  const comm::CallEnd call_end = group.conclude(std::nullopt, 0.0);
  ASSERT_TRUE(call_end.failure);
  EXPECT_THAT(call_end.failure->message, HasSubstr("rank 1 (the other end) was closed"));
  EXPECT_FALSE(call_end.usable);
}

}  // namespace
}  // namespace shardsolve::testing
