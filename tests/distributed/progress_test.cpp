// Ranks whose devices wait for each other, not their threads: one that stops is found all the same.

#include "mesh/process_backend.hpp"
#include "support/memory_transport.hpp"
#include "support/rank_program.hpp"
#include "support/thrown.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace shardsolve::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::size_t eager = 4096;
constexpr milliseconds silence(300);
constexpr milliseconds piece(50);

Mesh make_watched_mesh(const std::shared_ptr<MemoryPost>& post, std::int64_t rank) {
  auto backend =
      std::make_unique<mesh::ProcessBackend>(std::make_unique<MemoryTransport>(post, rank));
  backend->processes()->watch_progress();
  return Mesh(mesh::MeshState::start(std::move(backend)));
}

/// What each rank's program(rank) has thrown, all at once.
template <class Program>
std::vector<std::string> errors_of(std::int64_t ranks, milliseconds silence_limit,
                                   Program program) {
  const auto post = std::make_shared<MemoryPost>(ranks, eager);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> processes;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    processes.emplace_back([&, rank] {
      Mesh mesh = make_watched_mesh(post, rank);
      try {
        run_on(mesh, program, {.silence_limit = silence_limit});
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& process : processes) {
    process.join();
  }
  return errors;
}

/// As a thread does that waits for its device: it leaves when the call has failed.
void wait_for_nobody(mesh::Rank& rank, milliseconds longest) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (std::chrono::steady_clock::now() < end) {
    rank.leave_if_failed();
    std::this_thread::sleep_for(milliseconds(1));
  }
}

TEST(Progress, RanksThatStopTogether_AreFound) {
  const auto errors =
      errors_of(3, silence, [](mesh::Rank& rank) { wait_for_nobody(rank, 30 * silence); });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("has been silent"));
  }
}

TEST(Progress, RankThatStopsFirst_IsNamedByAll) {
  constexpr std::int64_t culprit = 1;
  const auto errors = errors_of(3, silence, [](mesh::Rank& rank) {
    for (int turn = 0; turn < 8 && rank.index() != culprit; ++turn) {
      enqueue(rank.update(), "work", [] { std::this_thread::sleep_for(milliseconds(50)); });
      rank.update().synchronize();
    }
    wait_for_nobody(rank, 30 * silence);
  });
  for (const std::string& error : errors) {
    EXPECT_THAT(error, HasSubstr("rank 1 has been silent"));
  }
}

TEST(Progress, RanksThatMoveOrHaveFinished_AreLeftAlone) {
  const auto errors = errors_of(3, 20 * piece, [](mesh::Rank& rank) {
    for (int turn = 0; turn < 30 && rank.index() > 0; ++turn) {
      enqueue(rank.update(), "work", [] { std::this_thread::sleep_for(piece); });
      rank.update().synchronize();
    }
  });
  EXPECT_THAT(errors, ::testing::Each(std::string()));
}

}  // namespace
}  // namespace shardsolve::testing
