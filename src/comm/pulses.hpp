/// What a rank knows of the others: their pulses, and how it waits for one.
#pragma once

#include "runtime/host/one_way_counter.hpp"
#include "runtime/pulse.hpp"

#include <shardsolve/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shardsolve::comm {

/// Of all ranks of a mesh.
class Pulses {
 public:
  explicit Pulses(std::int64_t ranks);

  std::int64_t ranks() const { return static_cast<std::int64_t>(pulses_.size()); }
  runtime::Pulse& of(std::int64_t rank) const { return *pulses_[static_cast<std::size_t>(rank)]; }
  /// How long a rank may show no sign of life while another waits for it. Only while no rank
  /// communicates.
  void set_silence_limit(std::chrono::duration<double> limit) { silence_limit_ = limit; }
  std::chrono::duration<double> silence_limit() const { return silence_limit_; }
  /// How often a process tells the others how far it is.
  std::chrono::duration<double> interval() const;

  /// Waits until rank `peer` has raised `counter` to `target`. Throws as Watch::look.
  void wait(const runtime::host::OneWayCounter& counter, std::uint32_t target, std::int64_t waiter,
            std::int64_t peer, const char* operation) const;

 private:
  std::vector<std::unique_ptr<runtime::Pulse>> pulses_;
  std::chrono::duration<double> silence_limit_ = std::chrono::seconds(300);
};

/// Error(communication): a rank has been silent.
class SilentRank : public Error {
 public:
  SilentRank(std::int64_t rank, const std::string& message)
      : Error(ErrorKind::communication, message), rank_(rank) {}
  std::int64_t rank() const { return rank_; }

 private:
  std::int64_t rank_;
};

/// One rank's wait for another: how it finds out that there is nothing left to wait for. While this
/// lives, the pulse of the waiting rank says whom it waits for.
class Watch {
 public:
  Watch(const Pulses& pulses, std::int64_t waiter, const char* operation)
      : pulses_(pulses), waiter_(waiter), operation_(operation) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  /// To be called now and then while rank `peer` is waited for. Throws Abandoned if the call has
  /// failed, SilentRank if the rank that is really awaited has been silent.
  void look(std::int64_t peer);
  /// The same without a throw for a call that has failed.
  void look_for_silence(std::int64_t peer);
  /// Throws SilentRank.
  [[noreturn]] void report(std::int64_t silent) const;

 private:
  using Clock = std::chrono::steady_clock;

  const Pulses& pulses_;
  std::int64_t waiter_;
  const char* operation_;
  std::int64_t awaited_ = -1;
  std::uint64_t beats_ = 0;
  Clock::time_point last_sign_;
};

}  // namespace shardsolve::comm
