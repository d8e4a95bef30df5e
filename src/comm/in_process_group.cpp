#include "comm/in_process_group.hpp"

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
  constexpr std::chrono::milliseconds look_around(20);
  if (counter.wait_for(target, look_around)) {
    return;
  }
  Watch watch(*this, waiter, operation);
  do {
    watch.look(peer);
  } while (!counter.wait_for(target, look_around));
}

Watch::~Watch() { group_.pulse(waiter_).set_waiting_for(-1); }

void Watch::look(std::int64_t peer) {
  if (group_.pulse(waiter_).failed()) {
    throw runtime::Abandoned{};
  }
  look_for_silence(peer);
}

void Watch::look_for_silence(std::int64_t peer) {
  group_.pulse(waiter_).set_waiting_for(peer);
  const std::int64_t now_awaited = end_of_chain(group_, peer);
  const std::uint64_t now_beats = group_.pulse(now_awaited).beats();
  if (now_awaited != awaited_ || now_beats != beats_) {
    awaited_ = now_awaited;
    beats_ = now_beats;
    last_sign_ = Clock::now();
  } else if (Clock::now() - last_sign_ > group_.silence_limit()) {
    report(awaited_);
  }
}

void Watch::report(std::int64_t silent) const {
  const runtime::Pulse& pulse = group_.pulse(silent);
  throw SilentRank(
      silent, fmt::format("rank {} has been silent for more than {:g} s; it was last seen at step "
                          "{} in '{}', while rank {} waited in '{}' of step {}. A longer limit "
                          "helps if its device is only slow",
                          silent, group_.silence_limit().count(), pulse.step(), pulse.operation(),
                          waiter_, operation_, group_.pulse(waiter_).step()));
}

}  // namespace shardsolve::comm
