// Where the system has no thread to spare: each thread that is started fails in turn. What comes
// out is an error that says what to do, and no thread is left behind.

#include "tests/unit/scarce_threads.hpp"

#include "comm/process_group.hpp"
#include "comm/tcp/lobby.hpp"
#include "jax/gang.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/process_backend.hpp"
#include "tests/support/memory_transport.hpp"
#include "tests/support/rank_program.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/mesh.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

using ::testing::HasSubstr;

void expect_advice(const std::string& message) {
  EXPECT_THAT(message, HasSubstr("no further thread"));
  EXPECT_THAT(message, HasSubstr("ulimit -u"));
  EXPECT_THAT(message, HasSubstr("pids.max"));
}

/// The first mesh ends threads that the BLAS has started.
std::int64_t threads_of_no_mesh() {
  Mesh::host(1);
  return threads_left(1);
}

TEST(ScarceThreads, MeshForWhichTheyDoNotDo_IsAnErrorAndLeavesNoneBehind) {
  constexpr std::int64_t ranks = 3;
  constexpr std::int64_t needed = 5 * ranks;
  const std::int64_t before = threads_of_no_mesh();
  for (std::int64_t left = 0; left < needed; ++left) {
    SCOPED_TRACE(left);
    const auto error = [&] {
      const ScarceThreads scarce(left);
      return thrown_by([] { Mesh::host(ranks); });
    }();
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::device);
    EXPECT_THAT(error->what(), HasSubstr("a mesh of 3 devices"));
    expect_advice(error->what());
    EXPECT_EQ(threads_left(before), before);
  }
  const ScarceThreads enough(needed);
  Mesh mesh = Mesh::host(ranks);
  EXPECT_TRUE(still_solves(mesh));
}

/// Notes whether it was given up: what ends it in good order would wait for the other processes.
class WatchedTransport final : public comm::Transport {
 public:
  WatchedTransport(std::unique_ptr<comm::Transport> inner, bool& abandoned)
      : inner_(std::move(inner)), abandoned_(abandoned) {}

  std::int64_t ranks() const override { return inner_->ranks(); }
  std::int64_t rank() const override { return inner_->rank(); }
  const std::vector<std::int64_t>& hosts() const override { return inner_->hosts(); }
  std::unique_ptr<comm::Message> send(std::int64_t to, Channel channel, int tag,
                                      comm::Bytes data) override {
    return inner_->send(to, channel, tag, data);
  }
  std::unique_ptr<comm::Message> receive(std::int64_t from, Channel channel, int tag,
                                         comm::Bytes room) override {
    return inner_->receive(from, channel, tag, room);
  }
  std::int64_t arrived(std::int64_t from, int tag) override { return inner_->arrived(from, tag); }
  void abandon() override { abandoned_ = true; }

 private:
  std::unique_ptr<comm::Transport> inner_;
  bool& abandoned_;
};

TEST(ScarceThreads, ProcessForWhichTheyDoNotDo_LeavesTheOthersWithoutWaiting) {
  constexpr std::int64_t needed = 6;  // five of the rank, one that watches the other processes
  const std::int64_t before = threads_of_no_mesh();
  bool abandoned = false;
  const auto make_mesh = [&](std::int64_t left) {
    abandoned = false;
    auto transport = std::make_unique<WatchedTransport>(
        std::make_unique<MemoryTransport>(std::make_shared<MemoryPost>(2, 100), 0), abandoned);
    auto backend = std::make_unique<mesh::ProcessBackend>(std::move(transport));
    const ScarceThreads scarce(left);
    return Mesh(mesh::MeshState::start(std::move(backend)));
  };
  for (std::int64_t left = 0; left < needed; ++left) {
    SCOPED_TRACE(left);
    const auto error = thrown_by([&] { make_mesh(left); });
    ASSERT_TRUE(error);
    expect_advice(error->what());
    EXPECT_TRUE(abandoned);
    EXPECT_EQ(threads_left(before), before);
  }
  make_mesh(needed);
  EXPECT_FALSE(abandoned);
}

TEST(ScarceThreads, LobbyForWhichTheyDoNotDo_IsAnErrorThatSaysWhatToDo) {
  const auto error = [] {
    const ScarceThreads scarce(0);
    return thrown_by([] { comm::tcp::Lobby(); });
  }();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::device);
  expect_advice(error->what());
}

/// What the devices of a call from JAX are told, in the order in which that happens.
class Told {
 public:
  jax::Done done() {
    return [this](const jax::Trouble* trouble) {
      const std::lock_guard lock(mutex_);
      told_.push_back(trouble == nullptr ? "done" : trouble->text);
      changed_.notify_all();
    };
  }
  /// Waits until so many have been told.
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return told_.size() >= count; });
    return told_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> told_;
};

/// A call of two devices; `left` threads are there for it.
std::vector<std::string> meet(std::int64_t site, std::int64_t left, bool& struck) {
  Told told;
  const ScarceThreads scarce(left);
  for (const std::int64_t rank : {0, 1}) {
    jax::join({.site = site}, rank, 2, {}, [](const std::vector<jax::Seat>&) {}, told.done());
  }
  const auto all = told.wait_for(2);
  struck = ScarceThreads::struck();
  return all;
}

/// Idle threads of earlier calls take their part, so how many are needed is only known afterwards.
TEST(ScarceThreads, CallFromJaxForWhichTheyDoNotDo_FailsOnAllDevicesAndTheNextOneWorks) {
  bool struck = false;
  const auto first = meet(1, 0, struck);
  ASSERT_TRUE(struck);
  for (const std::string& text : first) {
    EXPECT_THAT(text, HasSubstr("a solve from JAX"));
    expect_advice(text);
  }
  for (std::int64_t left = 1; left < 6; ++left) {
    for (const std::string& text : meet(1 + left, left, struck)) {
      if (text != "done") {
        EXPECT_TRUE(struck);
        expect_advice(text);
      }
    }
  }
  const std::vector<std::string> good{"done", "done"};
  EXPECT_EQ(meet(10, 100, struck), good);
}

}  // namespace
}  // namespace shardsolve::testing
