#include "comm/in_process_group.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace shardsolve::comm {
namespace {

/// The rank that somebody who waits for `rank` really waits for: the end of the chain of ranks that
/// wait for one another. A circle ends where it closes.
std::int64_t end_of_chain(const InProcessGroup& group, std::int64_t rank) {
  for (std::int64_t hop = 0; hop < group.ranks(); ++hop) {
    const std::int64_t next = group.pulse(rank).waiting_for();
    if (next < 0) {
      return rank;
    }
    rank = next;
  }
  return rank;
}

[[noreturn]] void report_silence(const InProcessGroup& group, std::int64_t waiter,
                                 std::int64_t silent, const char* operation) {
  const runtime::Pulse& pulse = group.pulse(silent);
  throw Error(
      ErrorKind::communication,
      fmt::format("rank {} has been silent for more than {:g} s; it was last seen at step {} "
                  "in '{}', while rank {} waited in '{}' of step {}. A longer limit helps if "
                  "its device is only slow",
                  silent, group.silence_limit().count(), pulse.step(), pulse.operation(), waiter,
                  operation, group.pulse(waiter).step()));
}

}  // namespace

InProcessGroup::InProcessGroup(std::vector<runtime::Pulse*> pulses)
    : pulses_(std::move(pulses)), channels_(pulses_.size() * pulses_.size()) {}

void InProcessGroup::reset() {
  for (Channel& channel : channels_) {
    channel.posted.reset();
    channel.taken.reset();
    channel.sends = 0;
    channel.receives = 0;
  }
  shared_windows_.clear();
}

InProcessGroup::SharedWindow& InProcessGroup::shared_window(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (index == shared_windows_.size()) {
    shared_windows_.push_back(std::make_unique<SharedWindow>(pulses_.size()));
  }
  return *shared_windows_[index];
}

void InProcessGroup::wait(const runtime::host::OneWayCounter& counter, std::uint32_t target,
                          std::int64_t waiter, std::int64_t peer, const char* operation) const {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds look_around(20);
  if (counter.wait_for(target, look_around)) {
    return;
  }
  runtime::Pulse& own = pulse(waiter);
  own.set_waiting_for(peer);
  std::int64_t awaited = -1;
  std::uint64_t beats = 0;
  auto last_sign = Clock::now();
  while (!counter.wait_for(target, look_around)) {
    if (own.failed()) {
      throw runtime::Abandoned{};
    }
    const std::int64_t now_awaited = end_of_chain(*this, peer);
    const std::uint64_t now_beats = pulse(now_awaited).beats();
    if (now_awaited != awaited || now_beats != beats) {
      awaited = now_awaited;
      beats = now_beats;
      last_sign = Clock::now();
    } else if (Clock::now() - last_sign > silence_limit_) {
      report_silence(*this, waiter, awaited, operation);
    }
  }
  own.set_waiting_for(-1);
}

}  // namespace shardsolve::comm
