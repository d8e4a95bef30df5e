/// A counter that one thread raises and others wait for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace shardsolve::runtime::host {

/// Raising it publishes the raiser's memory to those who wait; waiting publishes nothing back. That
/// is why this is neither a mutex nor std::atomic::wait, which order both ways: ThreadSanitizer
/// would then see an order between two queues that no event of ours has made, and miss the race.
/// Sleeps in the kernel (Linux futex), never spins. Counts modulo 2^32.
class OneWayCounter {
 public:
  /// Who waits: threads of this process, or of any that has mapped the memory it lies in.
  enum class Scope : std::uint8_t { process, machine };
  explicit OneWayCounter(Scope scope = Scope::process) : scope_(scope) {}

  std::uint32_t load() const { return count_.load(std::memory_order_acquire); }
  /// One raiser only.
  void store(std::uint32_t count);
  /// Waits until the count has reached `target`.
  void wait(std::uint32_t target) const;
  /// The same for at most `limit`; false if it has not.
  bool wait_for(std::uint32_t target, std::chrono::milliseconds limit) const;
  /// Only while nobody waits for a count up to this one.
  void reset(std::uint32_t count = 0) { count_.store(count, std::memory_order_relaxed); }

 private:
  static bool reached(std::uint32_t count, std::uint32_t target) {
    return static_cast<std::int32_t>(count - target) >= 0;
  }
  std::atomic<std::uint32_t> count_{0};
  Scope scope_;
};

}  // namespace shardsolve::runtime::host
