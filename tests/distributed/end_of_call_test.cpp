// How calls of several processes end where something is late: a failure, a message, a process. All
// come to an end, with the same outcome where they can still agree on one.

#include "comm/process_group.hpp"
#include "mesh/trace_gathering.hpp"
#include "support/memory_transport.hpp"
#include "support/process_meshes.hpp"
#include "support/rank_program.hpp"
#include "support/thrown.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::chrono::hours no_limit(1);

template <class Condition>
void wait_until(Condition condition) {
  while (!condition()) {
    std::this_thread::sleep_for(milliseconds(1));
  }
}

/// One process without a mesh: what it is told while a call runs, it does not know itself.
class Process {
 public:
  Process(const std::shared_ptr<MemoryPost>& post, std::int64_t rank,
          std::chrono::duration<double> silence_limit = no_limit)
      : rank_(rank), pulses_(post->ranks()), group_(std::make_unique<MemoryTransport>(post, rank)) {
    pulses_.set_silence_limit(silence_limit);
    group_.attach(pulses_, [this, told = false](const std::exception_ptr&) mutable {
      if (!std::exchange(told, true)) {
        told_.set_value();
      }
    });
  }

  comm::ProcessGroup& group() { return group_; }
  runtime::Pulse& pulse() { return pulses_.of(rank_); }

  void begin(std::stop_token stop = {}) { group_.begin_call(std::move(stop), false); }
  /// Until this process has found a failure.
  void wait_until_told() { told_.get_future().wait(); }
  comm::CallEnd end(const std::optional<comm::Failure>& known = std::nullopt) {
    return group_.conclude(known, 0.0);
  }
  std::future<comm::CallEnd> end_meanwhile(const std::optional<comm::Failure>& known = {}) {
    return std::async(std::launch::async, [this, known] { return end(known); });
  }

 private:
  std::int64_t rank_;
  comm::Pulses pulses_;
  std::promise<void> told_;
  comm::ProcessGroup group_;
};

const comm::Failure out_of_memory{ErrorKind::out_of_memory, "planted"};

/// The stop comes when the process has looked for a failure of its own and found none.
TEST(EndOfCall, FailureFoundWhileARankFinishes_IsTheOutcomeInAllProcesses) {
  const auto post = std::make_shared<MemoryPost>(2, std::size_t{4096});
  Process asked(post, 0);
  Process other(post, 1);
  std::stop_source stop;
  asked.begin(stop.get_token());
  other.begin();
  stop.request_stop();
  asked.wait_until_told();
  auto theirs = other.end_meanwhile();
  const comm::CallEnd ours = asked.end();
  for (const comm::CallEnd& call_end : {ours, theirs.get()}) {
    ASSERT_TRUE(call_end.failure);
    EXPECT_EQ(call_end.failure->kind, ErrorKind::cancelled);
    EXPECT_EQ(call_end.origin, 0);
    EXPECT_TRUE(call_end.usable);
  }
}

/// Launchers kill soon after they have asked to stop.
TEST(EndOfCall, StopWhileAProcessIsGone_IsNotWaitedForLong) {
  for (const auto& known : {std::optional(out_of_memory), std::optional<comm::Failure>()}) {
    SCOPED_TRACE(known ? "after a failure" : "without a failure");
    Process asked(std::make_shared<MemoryPost>(2, std::size_t{4096}), 0);
    std::stop_source stop;
    asked.begin(stop.get_token());
    asked.pulse().set_failed(known.has_value());
    auto end = asked.end_meanwhile(known);
    wait_until([&] { return std::string(asked.pulse().operation()) == "the end of the call"; });
    stop.request_stop();
    const comm::CallEnd call_end = end.get();
    ASSERT_TRUE(call_end.failure);
    EXPECT_THAT(call_end.failure->message, HasSubstr(known ? "planted" : "rank 1 has been silent"));
    EXPECT_FALSE(call_end.usable);
  }
}

/// The last that rank 1 has told before it stopped is that it waits for rank 2.
TEST(EndOfCall, ProcessThatStoppedWhileItWaited_IsNamedItself) {
  const auto post = std::make_shared<MemoryPost>(3, std::size_t{4096});
  MemoryTransport stopped(post, 1);
  comm::Note note;
  note.waiting_for = 2;
  const auto sent = stopped.send(0, comm::Transport::Channel::control, 0, {&note, sizeof note});
  Process waiting(post, 0, milliseconds(500));
  waiting.begin();
  std::array<char, 64> room{};
  std::int64_t named = -1;
  try {
    waiting.group().exchange("test", std::vector<comm::Bytes>(3), {{}, {room.data(), 64}, {}});
  } catch (const comm::SilentRank& silence) {
    named = silence.rank();
    EXPECT_THAT(silence.what(), HasSubstr("tells how far it is every 0.1 s"));
  }
  EXPECT_EQ(named, 1);
  waiting.end(out_of_memory);
}

/// It has said that it has ended and takes nothing any more: stopped, or behind a cut cable.
TEST(EndOfCall, LastNoteThatIsNotTaken_NamesWhoDoesNotTakeIt) {
  constexpr std::size_t eager = 64;  // notes are longer
  const auto post = std::make_shared<MemoryPost>(2, eager);
  MemoryTransport other(post, 1);
  comm::Note note;
  note.kind = comm::NoteKind::end;
  const auto sent = other.send(0, comm::Transport::Channel::control, 0, {&note, sizeof note});
  Process waiting(post, 0, milliseconds(250));
  waiting.begin();
  const comm::CallEnd call_end = waiting.end();
  ASSERT_TRUE(call_end.failure);
  EXPECT_THAT(call_end.failure->message, HasSubstr("rank 1 has been silent"));
  EXPECT_FALSE(call_end.usable);
}

/// They do so at once: nobody waits for their last notes, which would say why.
TEST(EndOfCall, RanksThatFindEachOtherSilent_AreAFailureInTheThirdToo) {
  const auto post = std::make_shared<MemoryPost>(3, std::size_t{4096});
  Process third(post, 2);
  third.begin();
  for (const std::int64_t rank : {0, 1}) {
    comm::Note note;
    note.kind = comm::NoteKind::failure;
    note.failed = true;
    note.error = ErrorKind::communication;
    note.silent = 1 - rank;
    note.length = std::string("planted").copy(note.text.data(), note.text.size());
    MemoryTransport(post, rank).send(2, comm::Transport::Channel::control, 0, {&note, sizeof note});
  }
  third.wait_until_told();
  wait_until([&] { return third.group().lost(0) && third.group().lost(1); });
  const comm::CallEnd call_end = third.end();
  ASSERT_TRUE(call_end.failure);
  EXPECT_EQ(call_end.failure->message, "planted");
  EXPECT_FALSE(call_end.usable);
}

/// Rank 0 has left when what it waits for arrives. Sanitizers see where it goes.
TEST(EndOfCall, MessageForARankThatHasLeft_FindsItsMemory) {
  const auto post = std::make_shared<MemoryPost>(2, std::size_t{4096});
  Process first(post, 0);
  Process second(post, 1);
  first.begin();
  second.begin();
  const auto leave = [](Process& process) {
    auto left = std::async(std::launch::async, [&process] {
      EXPECT_THROW(mesh::read_clocks(process.group(), process.pulse()), runtime::Abandoned);
    });
    wait_until([&] { return process.pulse().waiting_for() >= 0; });
    process.pulse().set_failed(true);
  };
  leave(first);   // having asked for a time
  leave(second);  // having told it, when asked again
  auto theirs = second.end_meanwhile(out_of_memory);
  EXPECT_TRUE(first.end(out_of_memory).usable);
  EXPECT_TRUE(theirs.get().usable);
  EXPECT_TRUE(post->in_good_order());
}

TEST(EndOfCall, MemoryOfAMessage_IsKeptUntilNothingCanArrive) {
  const auto post = std::make_shared<MemoryPost>(2, std::size_t{4096});
  Process first(post, 0);
  Process second(post, 1);
  first.begin();
  second.begin();
  auto room = std::make_shared<std::array<char, 64>>();
  const std::weak_ptr<std::array<char, 64>> kept = room;
  const std::vector<comm::Bytes> nothing(2);
  auto left = std::async(std::launch::async, [&] {
    EXPECT_THROW(first.group().exchange("test", nothing, {{}, {room->data(), room->size()}}, room),
                 runtime::Abandoned);
  });
  wait_until([&] { return first.pulse().waiting_for() >= 0; });
  first.pulse().set_failed(true);
  left.get();
  room.reset();
  EXPECT_FALSE(kept.expired());
  auto theirs = second.end_meanwhile();
  EXPECT_TRUE(first.end(out_of_memory).usable);
  EXPECT_TRUE(theirs.get().usable);
  EXPECT_TRUE(kept.expired());
}

/// The failure of another process ends the call in this one, whatever its own rank does. Who has
/// failed tells the user, the other one does not.
TEST(EndOfCall, RankThatDoesNotComeBack_IsAnErrorInItsProcessToo) {
  for (const std::int64_t failing : {0, 1}) {
    ProcessMeshes on(2);
    std::promise<void> release;
    const std::shared_future<void> released = release.get_future().share();
    on.together([&, failing](Mesh& mesh, std::int64_t self) {
      const auto error = thrown_by([&] {
        run_on(mesh,
               [released, failing](mesh::Rank& rank) {
                 if (rank.index() == failing) {
                   throw Error(ErrorKind::io, "planted");
                 }
                 released.wait();
               },
               {.silence_limit = milliseconds(250)});
      });
      ASSERT_TRUE(error);
      EXPECT_EQ(std::string(error->what()), "planted");
      EXPECT_EQ(mesh.state().speaks(), self == failing);
    });
    for (const auto& error : on.together([](Mesh& mesh, std::int64_t) { still_solves(mesh); })) {
      ASSERT_TRUE(error);
      EXPECT_THAT(error->what(), HasSubstr("make a new mesh"));
    }
    release.set_value();
  }
}

}  // namespace
}  // namespace shardsolve::testing
