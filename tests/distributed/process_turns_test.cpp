// Calls of JAX on meshes of several processes: the same order on all ranks, in whatever order they
// come. Here all ranks are in one process, as several devices of one are.

#include "jax/gang.hpp"
#include "jax/processes.hpp"
#include "support/rank_program.hpp"
#include "support/thrown.hpp"

#include <shardsolve/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace shardsolve::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class ProcessTurns : public ::testing::Test {
 protected:
  static constexpr std::int64_t ranks = 3;

  ProcessTurns() { jax::set_time_limit(std::chrono::seconds(60)); }
  ~ProcessTurns() override { jax::set_time_limit(std::chrono::seconds(300)); }

  /// What all ranks get to know of a new call.
  static jax::Invitations new_call(std::int64_t tile = 0) {
    jax::Invitations all;
    const jax::CallRow& row = *jax::find_call("cholesky_factor");
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      jax::Job job{&row, Dtype::float64, 100, ranks, ranks};
      job.options[row.option("tile")] = rank == 2 ? tile : 0;
      all.push_back(jax::invite(job));
    }
    return all;
  }
  /// The call on one rank: which one rank 0 runs at the same time.
  static std::uint32_t run(const jax::Invitations& all, std::int64_t rank) {
    const jax::Turn turn = jax::take_turn(all, rank);
    std::uint32_t of_rank_0 = 0;
    run_on(
        turn.mesh(),
        [&](mesh::Rank& self) {
          of_rank_0 = static_cast<std::uint32_t>(broadcast_value(self, 0, all[0].ticket));
        },
        turn.run);
    return of_rank_0;
  }
  /// On all ranks at a time; what each has thrown.
  static std::vector<std::optional<Error>> on_all(const jax::Invitations& all) {
    std::vector<std::optional<Error>> errors(ranks);
    std::vector<std::thread> threads;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          EXPECT_EQ(run(all, rank), all[0].ticket);
        } catch (const Error& error) {
          errors[static_cast<std::size_t>(rank)] = error;
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    return errors;
  }
  static void expect_works(const jax::Invitations& all) {
    for (const auto& error : on_all(all)) {
      EXPECT_FALSE(error) << error->what();
    }
  }
};

TEST_F(ProcessTurns, CallsThatComeInAnyOrder_RunInTheSameOrderOnAllRanks) {
  constexpr int calls = 16;
  std::vector<jax::Invitations> all;
  for (int call = 0; call < calls; ++call) {
    all.push_back(new_call());
  }
  std::mt19937 random(7);
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<jax::Invitations> in_some_order = all;
    std::shuffle(in_some_order.begin(), in_some_order.end(), random);
    for (int call = 0; call < calls; ++call) {
      threads.emplace_back([rank, call, one = in_some_order[static_cast<std::size_t>(call)]] {
        std::this_thread::sleep_for(call * milliseconds(1));
        EXPECT_EQ(run(one, rank), one[0].ticket);
      });
    }
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(ProcessTurns, CallsThatAreNotTheSame_AreRefusedOnAllRanks) {
  for (const auto& error : on_all(new_call(16))) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::invalid_argument);
    EXPECT_THAT(error->what(), HasSubstr("rank 0 has a factorisation of n = 100 in float64, rank 2 "
                                         "has a factorisation of n = 100 in float64, tile 16"));
  }
  expect_works(new_call());
}

TEST_F(ProcessTurns, VersionsThatAreNotTheSame_AreRefused) {
  jax::Invitations all = new_call();
  all[1].version += 2;
  for (const auto& error : on_all(all)) {
    ASSERT_TRUE(error);
    EXPECT_THAT(error->what(), HasSubstr("ranks 0 and 1 have different versions"));
  }
}

TEST_F(ProcessTurns, CallThatRank0DoesNotBegin_IsReportedAndTheNextHasANewMesh) {
  const jax::Invitations before = new_call();
  expect_works(new_call());
  jax::set_time_limit(milliseconds(200));
  const auto error = thrown_by([] { run(new_call(), 1); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::communication);
  EXPECT_THAT(error->what(), HasSubstr("rank 0 has not begun this call in time"));
  jax::set_time_limit(std::chrono::seconds(60));
  for (const auto& late : on_all(before)) {  // it was on its way when that happened
    EXPECT_TRUE(late);
  }
  expect_works(new_call());
}

TEST_F(ProcessTurns, OfGpusThatAreNotThere_AreAnErrorOfAllRanks) {
  jax::Invitations all = new_call();
  for (jax::Invitation& one : all) {
    one.gpu = 1000;
  }
  for (const auto& error : on_all(all)) {
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::device);
    EXPECT_THAT(error->what(), HasSubstr("rank 0: "));
  }
  expect_works(new_call());
}

}  // namespace
}  // namespace shardsolve::testing
