// What fails in one process ends the call in all of them, with the same error, and the mesh is fit
// for the next call unless a process was lost.

#include "mpi/processes.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"
#include "support/rank_program.hpp"
#include "support/thrown.hpp"

#include <shardsolve/cholesky.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

namespace shardsolve::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

/// Whether all processes solve a system together as they should.
::testing::AssertionResult solves_together(Mesh& mesh) {
  const SlabLayout layout = SlabLayout::even(41, mesh.ranks(), 6);
  const DenseMatrix<double> a = dense<double>({.n = layout.size(), .seed = 3});
  const DenseMatrix<double> b = right_hand_sides<double>(layout.size(), 2);
  const RightHandSides<double> x = share_of_rows(mesh, b, layout);
  const Outcome outcome = solve(mesh, share_of(mesh, a, layout), x);
  if (!outcome.ok()) {
    return ::testing::AssertionFailure() << outcome.message();
  }
  if (!(*outcome.backward_error < 10 * unit_roundoff<double>)) {
    return ::testing::AssertionFailure() << *outcome.backward_error;
  }
  return ::testing::AssertionSuccess();
}

class ProcessAgreement : public ::testing::Test {
 protected:
  Mesh mesh_ = make_process_mesh();

  /// Runs `program` with each rank as the culprit and expects its error in all processes.
  void expect_report(const std::function<void(mesh::Rank&, std::int64_t culprit)>& program) {
    for (std::int64_t culprit = 0; culprit < mesh_.ranks(); ++culprit) {
      const auto error = thrown_by(
          [&] { run_on(mesh_, [program, culprit](mesh::Rank& rank) { program(rank, culprit); }); });
      ASSERT_TRUE(error);
      EXPECT_EQ(error->kind(), ErrorKind::io) << error->what();
      EXPECT_EQ(std::string(error->what()), "planted");
      EXPECT_TRUE(solves_together(mesh_));
    }
  }
};

[[noreturn]] void throw_planted() { throw Error(ErrorKind::io, "planted"); }

TEST_F(ProcessAgreement, RankThatThrowsAtOnce_EndsTheCallEverywhere) {
  expect_report([](mesh::Rank& rank, std::int64_t culprit) {
    if (rank.index() == culprit) {
      throw_planted();
    }
    for (std::int64_t root = 0; root < rank.count(); ++root) {
      broadcast_value(rank, root, 1);
    }
  });
}

TEST_F(ProcessAgreement, RankThatThrowsWhileOthersWait_EndsTheCallEverywhere) {
  expect_report([](mesh::Rank& rank, std::int64_t culprit) {
    for (std::int64_t root = 0; root < rank.count(); ++root) {
      broadcast_value(rank, root, root);
    }
    if (rank.index() == culprit) {
      std::this_thread::sleep_for(milliseconds(60));
      throw_planted();
    }
    broadcast_value(rank, culprit, 1);
  });
}

TEST_F(ProcessAgreement, RankThatThrowsAtTheEnd_EndsTheCallEverywhere) {
  expect_report([](mesh::Rank& rank, std::int64_t culprit) {
    broadcast_value(rank, culprit, 1);
    if (rank.index() == culprit) {
      std::this_thread::sleep_for(milliseconds(60));
      throw_planted();
    }
  });
}

TEST_F(ProcessAgreement, AllRanksThatThrow_AreReportedAsOne) {
  expect_report([](mesh::Rank&, std::int64_t) { throw_planted(); });
}

/// Of both kinds of message, small ones and those that MPI sends by rendezvous, some are on their
/// way that nobody takes, and some are awaited that nobody sends.
TEST_F(ProcessAgreement, MessagesOnTheirWay_DoNotDisturbTheNextCall) {
  for (const std::int64_t size : {8, 1 << 20}) {
    expect_report([size](mesh::Rank& rank, std::int64_t culprit) {
      const MatrixView<std::byte> data = rank.workspace<std::byte>(size, rank.count());
      for (int turn = 0; turn < 4; ++turn) {
        if (rank.index() == culprit && turn == 2) {
          throw_planted();
        }
        std::vector<comm::Bytes> pieces;
        for (std::int64_t r = 0; r < rank.count(); ++r) {
          pieces.push_back({data.columns_from(r, 1).data(), static_cast<std::size_t>(size)});
        }
        rank.communicator().all_gather(rank.transfer(), pieces);
        const std::int64_t root = (culprit + turn) % rank.count();
        rank.communicator().broadcast(rank.transfer(), pieces[static_cast<std::size_t>(root)],
                                      root);
      }
      rank.transfer().synchronize();
    });
  }
}

TEST_F(ProcessAgreement, ManyFailuresInARow_LeaveTheMeshWorking) {
  for (int round = 0; round < 20; ++round) {
    EXPECT_TRUE(throws(ErrorKind::io, [&] {
      run_on(mesh_, [round](mesh::Rank& rank) {
        for (std::int64_t turn = 0; turn < 6; ++turn) {
          if (rank.index() == round % rank.count() && turn == round % 6) {
            throw_planted();
          }
          broadcast_value(rank, turn % rank.count(), turn);
        }
      });
    }));
  }
  EXPECT_TRUE(solves_together(mesh_));
}

TEST_F(ProcessAgreement, BroadcastOfAnotherSize_IsABugAndNoHang) {
  if (mesh_.ranks() == 1) {
    GTEST_SKIP() << "nobody to disagree with";
  }
  for (const std::size_t other : {32U, 128U}) {
    const auto error = thrown_by([&] {
      run_on(mesh_, [other](mesh::Rank& rank) {
        const MatrixView<std::byte> cell = rank.workspace<std::byte>(128, 1);
        rank.communicator().broadcast(rank.transfer(),
                                      {cell.data(), rank.index() == 1 ? other : 64U}, 0);
        rank.transfer().synchronize();
      });
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::internal) << error->what();
    EXPECT_THAT(error->what(), HasSubstr("broadcast"));
    EXPECT_TRUE(solves_together(mesh_));
  }
}

TEST_F(ProcessAgreement, StopThatOneProcessAsksFor_EndsTheCallEverywhere) {
  const SlabLayout layout = SlabLayout::even(600, mesh_.ranks(), 1);
  for (std::int64_t asked = 0; asked < mesh_.ranks(); ++asked) {
    std::stop_source stop;
    std::jthread clock([&, here = mesh_.is_here(asked)] {
      std::this_thread::sleep_for(milliseconds(20));
      if (here) {
        stop.request_stop();
      }
    });
    EXPECT_TRUE(throws(ErrorKind::cancelled, [&] {
      for (;;) {
        const DenseMatrix<double> a = dense<double>({.n = layout.size(), .seed = 3});
        cholesky_factor(mesh_, share_of(mesh_, a, layout), {.cancel = stop.get_token()});
      }
    }));
    EXPECT_TRUE(solves_together(mesh_));
  }
}

TEST_F(ProcessAgreement, SlabThatIsMissing_IsNamedInAllProcesses) {
  const SlabLayout layout = SlabLayout::even(41, mesh_.ranks(), 6);
  const std::int64_t last = mesh_.ranks() - 1;
  const DenseMatrix<double> a = dense<double>({.n = layout.size(), .seed = 3});
  ShardedMatrix<double> slabs = share_of(mesh_, a, layout);
  if (mesh_.is_here(last)) {
    slabs = ShardedMatrix<double>(
        layout, std::vector<MatrixView<double>>(static_cast<std::size_t>(mesh_.ranks())));
  }
  const auto error = thrown_by([&] { cholesky_factor(mesh_, slabs); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid_argument) << error->what();
  EXPECT_THAT(error->what(), HasSubstr("rank " + std::to_string(last)));
}

/// A process that works on is not silent, though nobody hears of its rank for longer than the
/// limit.
TEST_F(ProcessAgreement, ProcessThatWorksOnAlone_IsWaitedFor) {
  run_on(mesh_,
         [](mesh::Rank& rank) {
           if (rank.index() == rank.count() - 1) {
             std::this_thread::sleep_for(milliseconds(700));
           }
         },
         {.silence_limit = std::chrono::duration<double>(0.3)});
  EXPECT_TRUE(solves_together(mesh_));
}

/// A rank that others wait for and that does nothing: reported, and the mesh is not used again.
TEST_F(ProcessAgreement, RankThatStopsAnswering_IsReportedWithRankStepAndOperation) {
  if (!test_communicator() || mesh_.ranks() == 1) {
    GTEST_SKIP() << "leaves processes that cannot end MPI together unless the program does that";
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto error = thrown_by([&] {
    run_on(mesh_,
           [](mesh::Rank& rank) {
             rank.set_step(7);
             enqueue(rank.update(), "last words", [] {});
             rank.update().synchronize();
             if (rank.index() == 1) {
               std::this_thread::sleep_for(milliseconds(1500));
             }
             broadcast_value(rank, 1, 42);
           },
           {.silence_limit = std::chrono::duration<double>(0.3)});
  });
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::communication) << error->what();
  EXPECT_THAT(error->what(), HasSubstr("rank 1 "));
  EXPECT_THAT(error->what(), HasSubstr("step 7"));
  EXPECT_THAT(error->what(), HasSubstr("last words"));
  EXPECT_THAT(error->what(), HasSubstr("broadcast"));
  if (!mesh_.is_here(1)) {
    EXPECT_LE(waited.count(), 1.3);
    EXPECT_TRUE(throws(ErrorKind::communication, [&] { run_on(mesh_, [](mesh::Rank&) {}); }));
  }
}

}  // namespace
}  // namespace shardsolve::testing
