/// A rank's sign of life, and the word that something went wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>

namespace shardsolve::runtime {

/// Thrown to leave a rank program because another rank failed; never itself the reported reason.
struct Abandoned {};

/// Written by the queues of one rank, read by the ranks that wait for it. It informs and never
/// orders memory, so everything is relaxed but the name that `show` may have made just before.
class Pulse {
 public:
  /// Called between pieces of work: the rank is alive and about to run `operation` of `step`.
  void beat(const char* operation, std::int64_t step) {
    beats_.fetch_add(1, std::memory_order_relaxed);
    operation_.store(operation, std::memory_order_relaxed);
    step_.store(step, std::memory_order_relaxed);
  }
  /// Of a rank in another process: what that one has told of its pulse.
  void show(std::uint64_t beats, const char* operation, std::int64_t step) {
    beats_.store(beats, std::memory_order_relaxed);
    operation_.store(operation, std::memory_order_release);
    step_.store(step, std::memory_order_relaxed);
  }
  /// The rank is in another process, and what is known of it as old as what that one last told.
  /// Set before any work is enqueued.
  void set_told() { told_ = true; }
  bool told() const { return told_; }
  std::uint64_t beats() const { return beats_.load(std::memory_order_relaxed); }
  const char* operation() const { return operation_.load(std::memory_order_acquire); }
  std::int64_t step() const { return step_.load(std::memory_order_relaxed); }

  /// The rank that this one's transfer waits for, -1 if none.
  void set_waiting_for(std::int64_t rank) { waiting_for_.store(rank, std::memory_order_relaxed); }
  std::int64_t waiting_for() const { return waiting_for_.load(std::memory_order_relaxed); }

  /// Before a call: nothing has failed, nothing was done.
  void reset() {
    beat("start", -1);
    set_failed(false);
    set_waiting_for(-1);
  }

  /// Once failed, what is enqueued is left out and blocked transfers give up.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  void set_failed(bool failed) {
    failed_.store(failed, std::memory_order_relaxed);
    if (copy_ != nullptr) {
      *copy_ = failed ? 1 : 0;
    }
  }
  /// Where work that cannot ask is told, for as long as this lives; set before any work is
  /// enqueued.
  void keep_copy(volatile std::uint32_t* copy) { copy_ = copy; }

  /// Told of the exception of the first piece of work that throws; set before any work is enqueued.
  std::function<void(std::exception_ptr)> on_failure;

 private:
  std::atomic<std::uint64_t> beats_{0};
  std::atomic<const char*> operation_{"start"};
  std::atomic<std::int64_t> step_{-1};
  std::atomic<std::int64_t> waiting_for_{-1};
  std::atomic<bool> failed_{false};
  volatile std::uint32_t* copy_ = nullptr;
  bool told_ = false;
};

}  // namespace shardsolve::runtime
