#include "comm/release_agreement.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

namespace shardsolve::comm {
namespace {

using runtime::host::OneWayCounter;
using std::chrono::milliseconds;

constexpr std::int64_t ranks = 4;
constexpr std::uint32_t numbers_of_a_call = 1U << 20U;

/// A rank's memory: who has it open, and whether it was ever freed while somebody had.
struct Memory {
  std::array<bool, ranks> open{};  // each written by its rank alone, read by who frees
  bool missed = false;
};

/// Ranks as threads, with an agreement over what lies in common.
class Ranks {
 public:
  using Program = std::function<void(ReleaseAgreement&, std::int64_t)>;

  /// Runs a program on all ranks; the end of a call is where all have come to.
  void run(const Program& program) {
    std::vector<std::thread> threads;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        ReleaseAgreement agreement(words_, rank);
        program(agreement, rank);
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  void end_call() { ends_.arrive_and_wait(); }

  /// As between processes: until it is there, or the call has failed.
  ReleaseAgreement::Wait wait() const {
    return [this](const OneWayCounter& counter, std::uint32_t target, std::int64_t) {
      while (!counter.wait_for(target, milliseconds(1))) {
        if (failed_) {
          throw std::runtime_error("abandoned");
        }
      }
    };
  }

  void open_all(std::int64_t rank) { set_all(rank, true); }
  void close_all(std::int64_t rank) { set_all(rank, false); }
  void free_own(std::int64_t rank) {
    for (const bool open : memory(rank).open) {
      memory(rank).missed = memory(rank).missed || open;
    }
  }
  bool freed_in_use() const {
    bool any = false;
    for (const Memory& one : memories_) {
      any = any || one.missed;
    }
    return any;
  }
  std::int64_t opened_by(std::int64_t rank) const {
    std::int64_t count = 0;
    for (const Memory& one : memories_) {
      count += static_cast<std::int64_t>(one.open[static_cast<std::size_t>(rank)]);
    }
    return count;
  }

  std::atomic<bool> failed_ = false;

 private:
  Memory& memory(std::int64_t rank) { return memories_[static_cast<std::size_t>(rank)]; }
  void set_all(std::int64_t rank, bool open) {
    for (std::int64_t owner = 0; owner < ranks; ++owner) {
      memory(owner).open[static_cast<std::size_t>(rank)] = open && owner != rank;
    }
  }

  std::array<ReleaseAgreement::Word, ranks> words_;
  std::array<Memory, ranks> memories_;
  std::barrier<> ends_{ranks};
};

/// In call `call` the ranks free whose bits it has: every set of them, in many orders.
TEST(ReleaseAgreement, NobodyFrees_WhatAnotherHasOpen) {
  Ranks all;
  all.run([&all](ReleaseAgreement& agreement, std::int64_t rank) {
    for (std::uint32_t call = 0; call < 400; ++call) {
      agreement.begin_call(call * numbers_of_a_call);
      const bool frees = ((call * 7) >> rank & 1U) != 0;
      agreement.meet(frees, all.wait(), [&all, rank] { all.close_all(rank); });
      if (frees) {
        all.free_own(rank);
      }
      all.end_call();  // nobody opens what is not shown again yet
      all.open_all(rank);
      all.end_call();
    }
  });
  EXPECT_FALSE(all.freed_in_use());
}

TEST(ReleaseAgreement, WhereNobodyFrees_AllStaysOpen) {
  Ranks all;
  all.run([&all](ReleaseAgreement& agreement, std::int64_t rank) {
    all.open_all(rank);
    for (std::uint32_t call = 0; call < 5; ++call) {
      agreement.begin_call(call * numbers_of_a_call);
      agreement.meet(false, all.wait(), [&all, rank] { all.close_all(rank); });
      all.end_call();
    }
  });
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(all.opened_by(rank), ranks - 1) << rank;
  }
}

/// One rank fails before it has said anything, in each call another one; calls between go well.
TEST(ReleaseAgreement, CallThatFails_FreesNothingAndTheNextMeets) {
  Ranks all;
  std::atomic<int> freed_in_failed_calls = 0;
  std::atomic<int> freed = 0;
  all.run([&](ReleaseAgreement& agreement, std::int64_t rank) {
    for (std::uint32_t call = 0; call < 2 * ranks; ++call) {
      const bool fails = call % 2 == 0;
      agreement.begin_call(call * numbers_of_a_call);
      all.open_all(rank);
      all.end_call();
      if (fails && call / 2 == rank) {
        all.failed_ = true;
      } else {
        try {
          agreement.meet(true, all.wait(), [&all, rank] { all.close_all(rank); });
          all.free_own(rank);
          ++(fails ? freed_in_failed_calls : freed);
        } catch (const std::runtime_error&) {
        }
      }
      all.end_call();
      all.failed_ = false;
      all.end_call();
    }
  });
  EXPECT_EQ(freed_in_failed_calls, 0);
  EXPECT_EQ(freed, ranks * ranks);
  EXPECT_FALSE(all.freed_in_use());
}

/// Numbers go round after 4096 calls; not all of these meet.
TEST(ReleaseAgreement, AfterManyCallsWithoutMeeting_StillWaits) {
  Ranks all;
  all.run([&all](ReleaseAgreement& agreement, std::int64_t rank) {
    for (std::uint32_t call = 0; call < 9000; ++call) {
      agreement.begin_call(call * numbers_of_a_call);
      if (call % 3000 == 0) {
        all.open_all(rank);
        all.end_call();
        const bool frees = rank == call / 3000;
        agreement.meet(frees, all.wait(), [&all, rank] { all.close_all(rank); });
        if (frees) {
          all.free_own(rank);
        }
      }
      all.end_call();
    }
  });
  EXPECT_FALSE(all.freed_in_use());
}

TEST(ReleaseAgreement, RankThatLeaves_WaitsForTheOthersAtTheEnd) {
  Ranks all;
  all.run([&all](ReleaseAgreement& agreement, std::int64_t rank) {
    all.open_all(rank);
    all.end_call();
    std::this_thread::sleep_for(milliseconds(5 * rank));
    all.close_all(rank);
    agreement.leave();
    EXPECT_TRUE(agreement.all_have_left(milliseconds(60'000)));
    all.free_own(rank);
  });
  EXPECT_FALSE(all.freed_in_use());
}

TEST(ReleaseAgreement, RankThatStays_IsNotWaitedForForEver) {
  Ranks all;
  std::atomic<int> those_who_know = 0;
  all.run([&](ReleaseAgreement& agreement, std::int64_t rank) {
    if (rank != 1) {
      agreement.leave();
      those_who_know += agreement.all_have_left(milliseconds(20)) ? 0 : 1;
    }
    all.end_call();
    if (rank == 1) {
      agreement.leave();
      EXPECT_TRUE(agreement.all_have_left(milliseconds(0)));
    }
  });
  EXPECT_EQ(those_who_know, ranks - 1);
}

}  // namespace
}  // namespace shardsolve::comm
