#include "comm/pulses.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsolve::comm {
namespace {

/// The rank that `waiter`, who waits for `peer`, really waits for: the end of the chain of ranks
/// that wait for one another. Where that leads back to either of them it is `peer`: what a process
/// that stopped has last told may be out of date. Of another circle it is one of its ranks.
std::int64_t end_of_chain(const Pulses& pulses, std::int64_t waiter, std::int64_t peer) {
  std::int64_t rank = peer;
  for (std::int64_t hop = 0; hop < pulses.ranks(); ++hop) {
    const std::int64_t next = pulses.of(rank).waiting_for();
    if (next < 0) {
      return rank;
    }
    if (next == peer || next == waiter) {
      return peer;
    }
    rank = next;
  }
  return rank;
}

/// "at step 7 in 'herk'"; before the first step of an algorithm, and in files, there is none.
std::string place(const char* operation, std::int64_t step) {
  return step < 0 ? fmt::format("in '{}'", operation)
                  : fmt::format("at step {} in '{}'", step, operation);
}

}  // namespace

Pulses::Pulses(std::int64_t ranks) {
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    pulses_.push_back(std::make_unique<runtime::Pulse>());
  }
}

std::chrono::duration<double> Pulses::interval() const {
  constexpr double shortest = 0.01;
  constexpr double longest = 0.5;
  return std::chrono::duration<double>(std::clamp(silence_limit_.count() / 5, shortest, longest));
}

void Pulses::wait(const runtime::host::OneWayCounter& counter, std::uint32_t target,
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

Watch::~Watch() { pulses_.of(waiter_).set_waiting_for(-1); }

void Watch::look(std::int64_t peer) {
  if (pulses_.of(waiter_).failed()) {
    throw runtime::Abandoned{};
  }
  look_for_silence(peer);
}

void Watch::look_for_silence(std::int64_t peer) {
  pulses_.of(waiter_).set_waiting_for(peer);
  const std::int64_t now_awaited = end_of_chain(pulses_, waiter_, peer);
  const std::uint64_t now_beats = pulses_.of(now_awaited).beats();
  if (now_awaited != awaited_ || now_beats != beats_) {
    awaited_ = now_awaited;
    beats_ = now_beats;
    last_sign_ = Clock::now();
  } else if (Clock::now() - last_sign_ > pulses_.silence_limit()) {
    report(awaited_);
  }
}

void Watch::report(std::int64_t silent) const {
  const runtime::Pulse& pulse = pulses_.of(silent);
  const std::string age =
      pulse.told() ? fmt::format(
                         "Its process tells how far it is every {:g} s: it may have come "
                         "further. ",
                         pulses_.interval().count())
                   : "";
  throw SilentRank(
      silent,
      fmt::format("rank {} has been silent for more than {:g} s; it was last seen {}, "
                  "while rank {} waited {}. {}A longer limit helps if its device is only "
                  "slow",
                  silent, pulses_.silence_limit().count(), place(pulse.operation(), pulse.step()),
                  waiter_, place(operation_, pulses_.of(waiter_).step()), age));
}

}  // namespace shardsolve::comm
