#include "runtime/host/host_queue.hpp"

#include "tests/support/host_rank.hpp"

#include <shardsolve/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace shardsolve::runtime::host {
namespace {

using std::chrono::milliseconds;

constexpr WaitSite site{900, "test"};

class HostQueueTest : public ::testing::Test {
 protected:
  testing::HostRank rank_;
  HostQueue first_{"first", rank_.pulse()};
  HostQueue second_{"second", rank_.pulse()};

  /// Work that does not end before the promise is kept.
  static void hold(HostQueue& queue, std::promise<void>& let_go) {
    queue.launch({.name = "hold"}, [held = let_go.get_future().share()] { held.wait(); });
  }
};

TEST_F(HostQueueTest, Work_RunsInOrder) {
  std::vector<int> order;
  std::vector<int> expected(5000);
  std::iota(expected.begin(), expected.end(), 0);
  for (const int i : expected) {
    first_.launch({.name = "note"}, [&order, i] { order.push_back(i); });
  }
  first_.synchronize();
  EXPECT_EQ(order, expected);
}

#ifdef __SSE2__
TEST(HostQueueArithmetic, StartedWhereSubnormalsAreFlushed_KeepsThem) {
  testing::HostRank rank;
  const unsigned before = _mm_getcsr();
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  HostQueue queue("started with flushing", rank.pulse());
  _mm_setcsr(before);
  volatile double small = std::numeric_limits<double>::min();
  double half = -1.0;
  queue.launch({.name = "halve"}, [&] { half = small / 2.0; });
  queue.synchronize();
  EXPECT_GT(half, 0.0);
}
#endif

TEST_F(HostQueueTest, Synchronize_OfAnIdleQueue_ReturnsAtOnce) {
  first_.synchronize();
  first_.synchronize();
  EXPECT_EQ(first_.flops(), 0.0);
}

TEST_F(HostQueueTest, TwoQueues_RunSideBySide) {
  std::promise<void> let_go;
  hold(first_, let_go);
  second_.launch({.name = "release"}, [&let_go] { let_go.set_value(); });
  first_.synchronize();  // would never return if the second queue waited for the first
  second_.synchronize();
}

TEST_F(HostQueueTest, WaitForARecord_ComesAfterIt) {
  for (int round = 0; round < 200; ++round) {
    HostEvent event;
    int value = 0;  // plain: ThreadSanitizer sees a missing order
    int copy = -1;
    first_.launch({.name = "write"}, [&value, round] { value = round; });
    first_.record(event);
    second_.wait(event, site);
    second_.launch({.name = "read"}, [&value, &copy] { copy = value; });
    second_.synchronize();
    ASSERT_EQ(copy, round);
  }
  first_.synchronize();
}

TEST_F(HostQueueTest, WaitForAnEventNeverRecorded_ReturnsAtOnce) {
  HostEvent never;
  bool ran = false;
  first_.wait(never, site);
  first_.launch({.name = "note"}, [&ran] { ran = true; });
  first_.synchronize();
  never.synchronize(site);
  EXPECT_TRUE(ran);
}

/// The wait is for what was recorded when it was enqueued: an older record is not enough, a later
/// one not needed.
TEST_F(HostQueueTest, Wait_IsForTheLatestRecordBeforeIt) {
  HostEvent event;
  first_.record(event);
  first_.synchronize();
  std::promise<void> let_go;
  hold(first_, let_go);
  first_.record(event);  // the second record, which is not complete
  std::atomic<bool> passed{false};
  second_.wait(event, site);
  second_.launch({.name = "note"}, [&passed] { passed = true; });
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(passed) << "an older record was taken for the latest";
  let_go.set_value();
  second_.synchronize();
  EXPECT_TRUE(passed);

  std::promise<void> later;
  second_.wait(event, site);  // before the third record
  hold(first_, later);
  first_.record(event);
  second_.synchronize();  // would never return if it waited for the third
  later.set_value();
  first_.synchronize();
}

TEST_F(HostQueueTest, EventSynchronize_BlocksTheHostUntilTheRecord) {
  HostEvent event;
  int value = 0;
  first_.launch({.name = "slow"}, [&value] {
    std::this_thread::sleep_for(milliseconds(20));
    value = 42;
  });
  first_.record(event);
  event.synchronize(site);
  EXPECT_EQ(value, 42);
}

TEST_F(HostQueueTest, StoreAndCopy_MoveBytes) {
  std::int64_t device = 0;
  std::int64_t host = 0;
  first_.store(&device, 42, 1);
  first_.copy(&host, &device, sizeof(host));
  first_.copy(&host, &device, 0);
  first_.synchronize();
  EXPECT_EQ(host, 42);
}

TEST_F(HostQueueTest, WorkThatThrows_FailsTheRankAndLeavesOutTheRest) {
  std::atomic<int> ran{0};
  HostEvent event;
  first_.launch({.name = "throw"}, [] { throw Error(ErrorKind::io, "planted"); });
  first_.launch({.name = "note"}, [&ran] { ++ran; });
  first_.record(event);  // happens all the same: nobody is left waiting
  second_.wait(event, site);
  second_.launch({.name = "note"}, [&ran] { ++ran; });
  first_.synchronize();
  second_.synchronize();
  event.synchronize(site);
  EXPECT_TRUE(rank_.failed());
  EXPECT_EQ(ran, 0);
  EXPECT_THROW(rank_.rethrow(), Error);

  rank_.pulse().set_failed(false);
  first_.launch({.name = "note"}, [&ran] { ++ran; });
  first_.synchronize();
  EXPECT_EQ(ran, 1) << "a queue works again in the next call";
}

TEST_F(HostQueueTest, Destructor_RunsWhatIsEnqueued) {
  int ran = 0;
  {
    HostQueue queue("short", rank_.pulse());
    for (int i = 0; i < 100; ++i) {
      queue.launch({.name = "note"}, [&ran] { ++ran; });
    }
  }
  EXPECT_EQ(ran, 100);
}

TEST_F(HostQueueTest, WorkThatIsDone_KeepsNothing) {
  const auto memory = std::make_shared<int>(0);
  first_.launch({.name = "use"}, [memory] {});
  first_.synchronize();
  EXPECT_EQ(memory.use_count(), 1);
}

TEST_F(HostQueueTest, Call_CountsFlopsAndRecordsSpansWithTheirSteps) {
  first_.begin_call(true);
  first_.set_step(3);
  first_.launch({.name = "gemm", .flops = 10.0}, [] {});
  first_.set_step(4);
  first_.launch({.name = "broadcast", .bytes = 8.0}, [] {});
  first_.synchronize();
  EXPECT_EQ(first_.flops(), 10.0);
  const std::vector<TraceSpan> spans = first_.take_spans();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(std::string(spans[0].name), "gemm");
  EXPECT_EQ(spans[0].step, 3);
  EXPECT_EQ(spans[1].step, 4);
  EXPECT_EQ(spans[1].bytes, 8.0);
  EXPECT_LE(spans[0].begin, spans[0].end);
  EXPECT_LE(spans[0].end, spans[1].begin);

  first_.begin_call(false);
  first_.launch({.name = "gemm", .flops = 1.0}, [] {});
  first_.synchronize();
  EXPECT_EQ(first_.flops(), 1.0);
  EXPECT_TRUE(first_.take_spans().empty());
}

TEST_F(HostQueueTest, Pulse_BeatsWithEveryPieceOfWork) {
  const std::uint64_t before = rank_.pulse().beats();
  first_.set_step(5);
  first_.launch({.name = "work"}, [] {});
  first_.synchronize();
  EXPECT_GT(rank_.pulse().beats(), before);
  EXPECT_EQ(std::string(rank_.pulse().operation()), "work");
  EXPECT_EQ(rank_.pulse().step(), 5);
}

}  // namespace
}  // namespace shardsolve::runtime::host
