#include "comm/shared_memory.hpp"

#include "runtime/host/one_way_counter.hpp"
#include "tests/support/thrown.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <new>
#include <string>

namespace shardsolve::testing {
namespace {

using comm::SharedMemory;
using runtime::host::OneWayCounter;

constexpr std::size_t memory_size = 10000;

/// The exit code of `body` in a process of its own.
class Child {
 public:
  explicit Child(const std::function<bool()>& body) : pid_(::fork()) {
    if (pid_ == 0) {
      ::_exit(body() ? 0 : 1);
    }
  }
  int finish() const {
    int status = -1;
    ::waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_;
};

TEST(SharedMemory, OpenedByAnotherProcess_IsTheSame) {
  SharedMemory memory(memory_size);
  std::byte* word = memory.data() + SharedMemory::reserved;
  *word = std::byte{1};
  const std::string ticket = memory.ticket();
  const Child child([&] {
    const SharedMemory theirs(ticket, memory_size);
    std::byte* there = theirs.data() + SharedMemory::reserved;
    const bool seen = there != word && *there == std::byte{1};
    *there = std::byte{2};
    return seen && theirs.size() == memory.size();
  });
  EXPECT_EQ(child.finish(), 0);
  EXPECT_EQ(*word, std::byte{2});
}

TEST(SharedMemory, Withdrawn_IsNotOpenedAndStays) {
  SharedMemory memory(memory_size);
  const std::string ticket = memory.ticket();
  memory.withdraw();
  EXPECT_TRUE(throws(ErrorKind::io, [&] { SharedMemory(ticket, memory_size); }));
  memory.data()[memory.size() - 1] = std::byte{3};
}

TEST(SharedMemory, OfAnotherProcessOrSize_IsRefused) {
  const SharedMemory memory(memory_size);
  const SharedMemory other(memory_size);
  std::string ticket = memory.ticket();
  const std::string token = ticket.substr(ticket.rfind(' '));
  std::string mixed = other.ticket();
  mixed = mixed.substr(0, mixed.rfind(' ')) + token;
  EXPECT_TRUE(throws(ErrorKind::io, [&] { SharedMemory(mixed, memory_size); }));
  EXPECT_TRUE(throws(ErrorKind::io, [&] { SharedMemory(ticket, 10 * memory_size); }));
  EXPECT_TRUE(throws(ErrorKind::io, [&] { SharedMemory("", memory_size); }));
}

TEST(OneWayCounter, OfTheMachine_WakesAnotherProcess) {
  SharedMemory memory(memory_size);
  const std::string ticket = memory.ticket();
  auto* counters = reinterpret_cast<OneWayCounter*>(memory.data() + SharedMemory::reserved);
  new (&counters[0]) OneWayCounter(OneWayCounter::Scope::machine);
  new (&counters[1]) OneWayCounter(OneWayCounter::Scope::machine);
  constexpr std::uint32_t turns = 200;
  const Child child([&] {
    const SharedMemory theirs(ticket, memory_size);
    auto* there = reinterpret_cast<OneWayCounter*>(theirs.data() + SharedMemory::reserved);
    for (std::uint32_t turn = 1; turn <= turns; ++turn) {
      // far longer than it takes: whoever is not woken looks again only then
      if (!there[0].wait_for(turn, std::chrono::seconds(20))) {
        return false;
      }
      there[1].store(turn);
    }
    return true;
  });
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint32_t turn = 1; turn <= turns; ++turn) {
    counters[0].store(turn);
    ASSERT_TRUE(counters[1].wait_for(turn, std::chrono::seconds(20)));
  }
  EXPECT_EQ(child.finish(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(19));
}

}  // namespace
}  // namespace shardsolve::testing
