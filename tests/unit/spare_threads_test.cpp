// Pieces of work that threads of somebody else's take a part in.

#include "runtime/host/spare_threads.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace shardsolve::testing::spare_threads {
namespace {

using runtime::host::in_pieces;
using runtime::host::SpareThreads;

/// A thread for each task, which begins in another arithmetic, as XLA's do.
class Willing : public SpareThreads {
 public:
  ~Willing() override {
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  std::int64_t count() const override { return 3; }
  void start(std::function<void()> task) override {
    threads_.emplace_back([task = std::move(task)] {
      std::fesetround(FE_UPWARD);
      task();
    });
  }

 private:
  std::vector<std::thread> threads_;
};

/// All busy for as long as the call lasts.
class Busy : public SpareThreads {
 public:
  std::int64_t count() const override { return 3; }
  void start(std::function<void()> task) override { tasks.push_back(std::move(task)); }

  std::vector<std::function<void()>> tasks;
};

TEST(InPieces, EachPiece_IsDoneOnce) {
  Willing threads;
  for (const std::int64_t pieces : {0, 1, 2, 3, 100, 1000}) {
    std::vector<std::atomic<int>> done(static_cast<std::size_t>(pieces));
    in_pieces(&threads, pieces,
              [&](std::int64_t piece) { ++done[static_cast<std::size_t>(piece)]; });
    for (const auto& count : done) {
      EXPECT_EQ(count, 1);
    }
  }
}

TEST(InPieces, SeveralThreads_WorkAtATimeAndAreWaitedFor) {
  Willing threads;
  const std::thread::id caller = std::this_thread::get_id();
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;
  std::atomic<int> done = 0;
  in_pieces(&threads, 2, [&](std::int64_t /*piece*/) {
    std::unique_lock lock(mutex);
    ++inside;
    changed.notify_all();
    changed.wait(lock, [&] { return inside == 2; });
    lock.unlock();
    if (std::this_thread::get_id() != caller) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ++done;
  });
  EXPECT_EQ(done, 2);
}

TEST(InPieces, ThreadsThatNeverCome_AreNotWaitedFor) {
  Busy threads;
  int done = 0;
  in_pieces(&threads, 10, [&](std::int64_t /*piece*/) { ++done; });
  EXPECT_EQ(done, 10);
  EXPECT_EQ(threads.tasks.size(), 3U);
  // They come when the caller's memory is gone, and find nothing to do.
  for (const auto& task : threads.tasks) {
    task();
  }
  EXPECT_EQ(done, 10);
}

TEST(InPieces, OnePiece_AsksForNobody) {
  Busy threads;
  in_pieces(&threads, 1, [](std::int64_t /*piece*/) {});
  EXPECT_TRUE(threads.tasks.empty());
}

TEST(InPieces, AnyThread_HasIeeeArithmetic) {
  Willing threads;
  std::atomic<int> other = 0;
  std::fesetround(FE_UPWARD);
  in_pieces(&threads, 64, [&](std::int64_t /*piece*/) {
    other += std::fegetround() != FE_TONEAREST ? 1 : 0;
    std::this_thread::yield();
  });
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(other, 0);
}

TEST(InPieces, PieceThatThrows_IsTheCallersToCatch) {
  Willing threads;
  std::atomic<int> done = 0;
  const auto work = [&](std::int64_t piece) {
    ++done;
    if (piece == 7) {
      throw std::runtime_error("piece 7");
    }
  };
  EXPECT_THROW(in_pieces(&threads, 20, work), std::runtime_error);
  EXPECT_EQ(done, 20);
  EXPECT_THROW(in_pieces(nullptr, 8, work), std::runtime_error);
}

}  // namespace
}  // namespace shardsolve::testing::spare_threads
