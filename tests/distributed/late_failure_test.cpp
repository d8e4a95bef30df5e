// Failures that come to light when a process has done its part of a call: all processes have the
// same outcome all the same.

#include "comm/process_group.hpp"
#include "support/memory_transport.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

/// One process without a mesh: what it is told while a call runs, it does not know itself.
class Process {
 public:
  Process(const std::shared_ptr<MemoryPost>& post, std::int64_t rank)
      : pulses_(static_cast<std::size_t>(post->ranks())),
        ranks_(pointers()),
        group_(std::make_unique<MemoryTransport>(post, rank)) {
    group_.attach(ranks_, [this](const std::exception_ptr&) { told_.set_value(); });
  }

  void begin(std::stop_token stop) { group_.begin_call(std::move(stop), false); }
  /// Until this process has found a failure.
  void wait_until_told() { told_.get_future().wait(); }
  comm::Verdict end() { return group_.conclude(std::nullopt, 0.0); }

 private:
  std::vector<runtime::Pulse*> pointers() {
    std::vector<runtime::Pulse*> all;
    for (runtime::Pulse& pulse : pulses_) {
      all.push_back(&pulse);
    }
    return all;
  }

  std::vector<runtime::Pulse> pulses_;
  comm::InProcessGroup ranks_;
  std::promise<void> told_;
  comm::ProcessGroup group_;
};

/// The stop comes when the process has looked for a failure of its own and found none.
TEST(LateFailure, FoundWhileARankFinishes_IsTheOutcomeInAllProcesses) {
  const auto post = std::make_shared<MemoryPost>(2, std::size_t{4096});
  Process asked(post, 0);
  Process other(post, 1);
  std::stop_source stop;
  asked.begin(stop.get_token());
  other.begin({});
  stop.request_stop();
  asked.wait_until_told();
  comm::Verdict theirs;
  std::thread meanwhile([&] { theirs = other.end(); });
  const comm::Verdict ours = asked.end();
  meanwhile.join();
  for (const comm::Verdict& verdict : {ours, theirs}) {
    ASSERT_TRUE(verdict.failure);
    EXPECT_EQ(verdict.failure->kind, ErrorKind::cancelled);
    EXPECT_EQ(verdict.origin, 0);
    EXPECT_TRUE(verdict.usable);
  }
}

}  // namespace
}  // namespace shardsolve::testing
