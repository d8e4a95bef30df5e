// Between two collectives no rank leaves alone: an error, a rank that falls silent or a message
// that does not fit ends the call on all ranks, in bounded time, and the mesh is fit for the next
// one.

#include "support/busy.hpp"
#include "support/process_meshes.hpp"
#include "support/rank_program.hpp"
#include "support/thrown.hpp"

#include <shardsolve/cholesky.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sched.h>

#include <atomic>
#include <chrono>
#include <future>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace shardsolve::testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

double seconds_since(Clock::time_point begin) {
  return duration<double>(Clock::now() - begin).count();
}

/// Ranks and the one of them that misbehaves.
struct Culprit {
  std::int64_t ranks;
  std::int64_t rank;
};

class Agreement : public ::testing::TestWithParam<Culprit> {
 protected:
  std::int64_t ranks_ = GetParam().ranks;
  std::int64_t culprit_ = GetParam().rank;
  Mesh mesh_ = Mesh::host(ranks_);

  /// Runs `program` and expects the culprit's error on the caller's side.
  void expect_report(mesh::RankProgram program) {
    const auto error = thrown_by([&] { run_on(mesh_, std::move(program)); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::io);
    EXPECT_EQ(std::string(error->what()), "planted");
    EXPECT_TRUE(still_solves(mesh_));
  }
};

[[noreturn]] void throw_planted() { throw Error(ErrorKind::io, "planted"); }

TEST_P(Agreement, RankThatThrowsAtOnce_EndsTheCallEverywhere) {
  expect_report([culprit = culprit_](mesh::Rank& rank) {
    if (rank.index() == culprit) {
      throw_planted();
    }
    for (std::int64_t root = 0; root < rank.count(); ++root) {
      broadcast_value(rank, root, 1);
    }
  });
}

TEST_P(Agreement, RankThatThrowsWhileOthersWait_EndsTheCallEverywhere) {
  expect_report([culprit = culprit_](mesh::Rank& rank) {
    for (std::int64_t root = 0; root < rank.count(); ++root) {
      broadcast_value(rank, root, root);
    }
    if (rank.index() == culprit) {
      std::this_thread::sleep_for(milliseconds(60));  // the others are asleep by now
      throw_planted();
    }
    broadcast_value(rank, culprit, 1);
  });
}

TEST_P(Agreement, AllRanksThatThrow_AreReportedAsOne) {
  expect_report([](mesh::Rank&) { throw_planted(); });
}

TEST_P(Agreement, WorkOnAQueueThatThrows_EndsTheCallEverywhere) {
  expect_report([culprit = culprit_](mesh::Rank& rank) {
    for (runtime::Queue* queue : {&rank.update(), &rank.transfer()}) {
      if (rank.index() == culprit) {
        enqueue(*queue, "planted", throw_planted);
      }
    }
    broadcast_value(rank, culprit, 1);
    broadcast_value(rank, (culprit + 1) % rank.count(), 1);
  });
}

/// A throw on one queue leaves nobody waiting for an event that was to follow it.
TEST_P(Agreement, WorkThatThrowsBeforeARecord_StillCompletesTheEvent) {
  static constexpr runtime::WaitSite site{900, "test"};
  expect_report([culprit = culprit_](mesh::Rank& rank) {
    runtime::Event& event = rank.event();
    if (rank.index() == culprit) {
      enqueue(rank.panel(), "planted", throw_planted);
    }
    rank.panel().record(event);
    rank.transfer().wait(event, site);
    broadcast_value(rank, culprit, 1);
  });
}

/// As other processes are told of them.
TEST_P(Agreement, OtherExceptions_AreReportedAsErrors) {
  const auto error_of = [this](auto throw_other) {
    return thrown_by([&] {
      run_on(mesh_, [throw_other, culprit = culprit_](mesh::Rank& rank) {
        if (rank.index() == culprit) {
          throw_other();
        }
        broadcast_value(rank, culprit, 1);
      });
    });
  };
  const auto other = error_of([] { throw std::range_error("planted"); });
  ASSERT_TRUE(other);
  EXPECT_EQ(other->kind(), ErrorKind::internal);
  EXPECT_THAT(other->what(), HasSubstr("planted"));
  const auto no_memory = error_of([] { throw std::bad_alloc(); });
  ASSERT_TRUE(no_memory);
  EXPECT_EQ(no_memory->kind(), ErrorKind::out_of_memory);
  EXPECT_TRUE(still_solves(mesh_));
}

TEST_P(Agreement, ManyFailuresInARow_LeaveTheMeshWorking) {
  for (int round = 0; round < 10; ++round) {
    EXPECT_TRUE(throws(ErrorKind::io, [&] {
      run_on(mesh_, [culprit = culprit_, round](mesh::Rank& rank) {
        for (std::int64_t turn = 0; turn < 6; ++turn) {
          if (rank.index() == culprit && turn == round % 6) {
            throw_planted();
          }
          broadcast_value(rank, turn % rank.count(), turn);
        }
      });
    }));
  }
  EXPECT_TRUE(still_solves(mesh_));
}

TEST_P(Agreement, BroadcastOfAnotherSize_IsABugAndNoHang) {
  if (ranks_ == 1) {
    GTEST_SKIP() << "nobody to disagree with";
  }
  const auto error = thrown_by([&] {
    run_on(mesh_, [culprit = culprit_](mesh::Rank& rank) {
      const MatrixView<std::byte> cell = rank.workspace<std::byte>(64, 1);
      const std::size_t size = rank.index() == culprit ? 64 : 32;
      rank.communicator().broadcast(rank.transfer(), {cell.data(), size}, 0);
    });
  });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::internal) << error->what();
  EXPECT_THAT(error->what(),
              ::testing::AllOf(HasSubstr("64"), HasSubstr("32"), HasSubstr("broadcast")));
  EXPECT_TRUE(still_solves(mesh_));
}

TEST_P(Agreement, KernelWithMisfittingOperands_IsABugAndNoHang) {
  EXPECT_TRUE(throws(ErrorKind::internal, [&] {
    run_on(mesh_, [culprit = culprit_](mesh::Rank& rank) {
      const MatrixView<double> a = rank.workspace<double>(3, 3);
      const MatrixView<double> b = rank.workspace<double>(4, 3);
      if (rank.index() == culprit) {
        rank.kernels<double>().copy(rank.update(), a, b);
      }
      broadcast_value(rank, culprit, 1);
    });
  }));
  EXPECT_TRUE(still_solves(mesh_));
}

INSTANTIATE_TEST_SUITE_P(Culprits, Agreement,
                         ::testing::Values(Culprit{1, 0}, Culprit{2, 0}, Culprit{2, 1},
                                           Culprit{3, 1}, Culprit{4, 0}, Culprit{4, 3},
                                           Culprit{6, 2}),
                         [](const auto& instance) {
                           return std::to_string(instance.param.ranks) + "_ranks_culprit_" +
                                  std::to_string(instance.param.rank);
                         });

// ---- silence
// -------------------------------------------------------------------------------------

constexpr double limit = 0.3;

/// Rank 1 stops answering in step 7 until it is let go, or for `at_most`.
mesh::RankProgram silent_program(std::shared_future<void> let_go, milliseconds at_most) {
  return [let_go, at_most](mesh::Rank& rank) {
    rank.set_step(7);
    enqueue(rank.update(), "last words", [] {});
    rank.update().synchronize();
    if (rank.index() == 1) {
      let_go.wait_for(at_most);
    }
    broadcast_value(rank, 1, 42);
  };
}

TEST(Silence, RankThatStopsAnswering_IsReportedWithRankStepAndOperation) {
  std::promise<void> let_go;
  Mesh mesh = Mesh::host(4);
  const auto begin = Clock::now();
  const auto error = thrown_by([&] {
    run_on(mesh, silent_program(let_go.get_future().share(), std::chrono::seconds(60)),
           {.silence_limit = duration<double>(limit)});
  });
  const double waited = seconds_since(begin);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::communication) << error->what();
  EXPECT_THAT(error->what(), HasSubstr("rank 1 "));
  EXPECT_THAT(error->what(), HasSubstr("step 7"));
  EXPECT_THAT(error->what(), HasSubstr("last words"));
  EXPECT_THAT(error->what(), HasSubstr("broadcast"));
  EXPECT_GE(waited, limit);
  EXPECT_LE(waited, 2.0 * limit + 1.0);
  // Rank 1 is still away: the mesh says so at once.
  EXPECT_TRUE(throws(ErrorKind::communication, [&] { run_on(mesh, [](mesh::Rank&) {}); }));
  EXPECT_FALSE(mesh.state().await_ranks(milliseconds(1)));
  let_go.set_value();
  EXPECT_TRUE(mesh.state().await_ranks(std::chrono::seconds(20)));
}

TEST(Silence, RankThatComesBackInTime_LeavesTheMeshWorking) {
  Mesh mesh = Mesh::host(4);
  std::promise<void> never;
  EXPECT_TRUE(throws(ErrorKind::communication, [&] {
    run_on(mesh, silent_program(never.get_future().share(), milliseconds(450)),
           {.silence_limit = duration<double>(limit)});
  }));
  EXPECT_TRUE(still_solves(mesh));
}

/// Ranks that wait for each other in the wrong order are all alive, and all silent.
TEST(Silence, RanksThatWaitForEachOther_AreReported) {
  Mesh mesh = Mesh::host(3);
  const auto begin = Clock::now();
  EXPECT_TRUE(throws(ErrorKind::communication, [&] {
    run_on(mesh, [](mesh::Rank& rank) { broadcast_value(rank, (rank.index() + 1) % 3, 1); },
           {.silence_limit = duration<double>(limit)});
  }));
  EXPECT_LE(seconds_since(begin), 2.0 * limit + 1.0);
  EXPECT_TRUE(still_solves(mesh));
}

/// Slow is not silent: whoever keeps working may take longer than the limit.
TEST(Silence, RankThatKeepsWorking_IsWaitedFor) {
  Mesh mesh = Mesh::host(3);
  std::atomic<std::int64_t> received{0};
  run_on(mesh,
         [&](mesh::Rank& rank) {
           if (rank.index() == 1) {
             for (int piece = 0; piece < 12; ++piece) {
               enqueue(rank.transfer(), "slow",
                       [] { std::this_thread::sleep_for(milliseconds(60)); });
             }
           }
           received += broadcast_value(rank, 1, 42);
         },
         {.silence_limit = duration<double>(limit)});
  EXPECT_EQ(received, 3 * 42);
}

/// In a call that fails a rank may take a while to leave.
TEST(Silence, LimitWithoutEnd_IsWaitedFor) {
  const RunOptions without_end[] = {
      {.silence_limit = duration<double>::max()},
      {.silence_limit = duration<double>(std::numeric_limits<double>::infinity())}};
  for (const RunOptions& options : without_end) {
    const auto fail_in = [&](Mesh& mesh) {
      return thrown_by([&] {
        run_on(
            mesh,
            [](mesh::Rank& rank) {
              if (rank.index() == 0) {
                throw_planted();
              }
              std::this_thread::sleep_for(milliseconds(100));
            },
            options);
      });
    };
    Mesh mesh = Mesh::host(2);
    const auto error = fail_in(mesh);
    ASSERT_TRUE(error);
    EXPECT_EQ(std::string(error->what()), "planted");
    EXPECT_TRUE(still_solves(mesh));
    ProcessMeshes on(2);
    on.together([&](Mesh& process, std::int64_t) { fail_in(process); });
    for (const auto& broken : on.together([](Mesh& process, std::int64_t) {
           run_on(process, [](mesh::Rank& rank) { broadcast_value(rank, 0, 1); });
         })) {
      EXPECT_FALSE(broken) << broken->what();
    }
  }
}

TEST(Silence, LimitThatIsNone_IsRefused) {
  Mesh mesh = Mesh::host(2);
  for (const double none : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(throws(ErrorKind::invalid_argument, [&] {
      run_on(mesh, [](mesh::Rank&) {}, {.silence_limit = duration<double>(none)});
    }));
  }
  EXPECT_TRUE(still_solves(mesh));
}

// ---- what else a mesh has to stand --------------------------------------------------------------

/// The caller's memory is given back when the call is over, not when the next one comes.
TEST(MeshCalls, CallThatIsOver_KeepsNothingOfTheCallers) {
  Mesh mesh = Mesh::host(3);
  const auto memory = std::make_shared<int>(0);
  run_on(mesh, [memory](mesh::Rank&) {});
  for (int look = 0; look < 100 && memory.use_count() > 1; ++look) {
    std::this_thread::sleep_for(milliseconds(5));  // threads of the mesh may be on their way out
  }
  EXPECT_EQ(memory.use_count(), 1);
}

/// Threads inherit the core of the one that makes them.
class OneCore {
 public:
  OneCore() {
    EXPECT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
      if (CPU_ISSET(core, &before_)) {
        CPU_SET(core, &one);
      }
    }
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;
  ~OneCore() { sched_setaffinity(0, sizeof(before_), &before_); }

 private:
  cpu_set_t before_;
};

TEST(MeshCalls, OneCoreForEverything_IsEnough) {
  const OneCore one_core;
  const BusyThreads busy(1);
  for (const std::int64_t ranks : {2, 4}) {
    Mesh mesh = Mesh::host(ranks);
    EXPECT_TRUE(still_solves(mesh));
  }
}

TEST(MeshCalls, MostRanksThereMayBe_SolveTogether) {
  Mesh mesh = Mesh::host(Mesh::max_host_ranks);
  EXPECT_TRUE(still_solves(mesh));
}

}  // namespace
}  // namespace shardsolve::testing
