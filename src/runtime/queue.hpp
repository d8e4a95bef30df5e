/// Ordered asynchronous work on one device.
#pragma once

#include <shardsolve/trace.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace shardsolve::runtime {

/// A place in the code where something waits for an event. In builds with
/// SHARDSOLVE_SKIPPABLE_WAITS the environment variable SHARDSOLVE_SKIP_WAIT=<number> makes that
/// wait do nothing, which proves that the tests would notice if it were forgotten.
struct WaitSite {
  int number;
  const char* what;
};

/// True if the test build was told to leave this wait out; always false in other builds.
bool skipped(const WaitSite& site);

/// What a piece of work is called and costs.
struct WorkInfo {
  const char* name = "";
  double flops = 0.0;
  double bytes = 0.0;
  const char* link = "";  ///< what the bytes go over, as in TraceSpan
};

/// A mark in a queue. Belongs to the queue that records it, outlives all work that waits for it.
class Event {
 public:
  virtual ~Event() = default;
  /// Blocks the calling host thread until the latest record is complete.
  virtual void synchronize(const WaitSite& site) = 0;
};

/// Work that a queue has captured. Belongs to that queue.
class Recording {
 public:
  virtual ~Recording() = default;
};

/// Work enqueued on one queue runs in order; queues run side by side and are ordered by events
/// only. One host thread enqueues.
class Queue {
 public:
  virtual ~Queue() = default;

  /// The event completes when all work enqueued so far has.
  virtual void record(Event& event) = 0;
  /// What is enqueued from now on starts after the latest record of `event` is complete (at once if
  /// there was none).
  virtual void wait(Event& event, const WaitSite& site) = 0;
  /// Blocks the calling host thread until all enqueued work is complete.
  virtual void synchronize() = 0;

  /// Stores `value` in `count` consecutive places of device memory.
  virtual void store(std::int64_t* target, std::int64_t value, std::int64_t count) = 0;
  /// Zeros in device memory.
  virtual void clear(void* target, std::size_t bytes) = 0;
  /// Copies between device and host memory.
  virtual void copy(void* target, const void* source, std::size_t bytes) = 0;

  /// Takes down what `enqueue` enqueues here instead of doing it: kernels and copies on this queue
  /// alone, with operands that live as long as the recording, and none of them for the first time.
  /// Null, and nothing has been called, if this queue cannot or what it does is traced.
  virtual std::unique_ptr<Recording> capture(const std::function<void()>& /*enqueue*/) {
    return nullptr;
  }
  /// Enqueues it, at less cost than what it consists of.
  virtual void repeat(Recording& /*recording*/) {}

  /// The step that what is enqueued from now on belongs to, for traces and error messages. For
  /// traces each call of this begins a turn of its own, counted from begin_call() on.
  virtual void set_step(std::int64_t step) = 0;

  virtual const std::string& name() const = 0;
  /// Only while the queue is idle: counts from zero, and records spans or not.
  virtual void begin_call(bool tracing) = 0;
  /// What it did since then, if it was recorded; only while the queue is idle.
  virtual std::vector<TraceSpan> take_spans() = 0;
  virtual double flops() const = 0;
};

}  // namespace shardsolve::runtime
