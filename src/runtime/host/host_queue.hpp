/// A queue that is a worker thread, or runs its work at once in the caller's, and its events.
#pragma once

#include "runtime/host/one_way_counter.hpp"
#include "runtime/host/spare_threads.hpp"
#include "runtime/pulse.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/trace.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace shardsolve::runtime::host {

/// Counts its records; complete when the worker's count has caught up.
class HostEvent final : public Event {
 public:
  void synchronize(const WaitSite& site) override;

 private:
  friend class HostQueue;
  std::uint32_t recorded_ = 0;  // touched by the enqueuing thread only
  OneWayCounter completed_;
};

/// Which thread runs a queue's work. In the caller's it is done when the call that enqueues it
/// returns: right for a rank that is alone, as nobody waits then for what comes later.
enum class RunsIn : std::uint8_t { own_thread, caller };

class HostQueue final : public Queue {
 public:
  /// `pulse` is the rank's sign of life: moved on with every piece of work, and told of a failure.
  /// `spare`: threads that kernels may let do a part of their work, if they have many rows.
  /// Throws std::system_error if the system has no thread for a worker.
  HostQueue(std::string name, Pulse& pulse, RunsIn runs_in = RunsIn::own_thread,
            SpareThreads* spare = nullptr);
  /// Runs what is enqueued, then ends the worker.
  ~HostQueue() override;
  HostQueue(const HostQueue&) = delete;
  HostQueue& operator=(const HostQueue&) = delete;

  void record(Event& event) override;
  void wait(Event& event, const WaitSite& site) override;
  void synchronize() override;
  void store(std::int64_t* target, std::int64_t value, std::int64_t count) override;
  void clear(void* target, std::size_t bytes) override;
  void copy(void* target, const void* source, std::size_t bytes) override;
  void set_step(std::int64_t step) override {
    step_ = step;
    ++turn_;
  }

  /// Enqueues `work`. It is left out if the rank has failed before its turn comes; an exception
  /// that it throws is the rank's failure. `messages`: those it sends and receives, for the trace.
  template <class Work>
  void launch(const WorkInfo& info, Work work, std::vector<TraceMessage> messages = {}) {
    if (runs_in_ == RunsIn::caller) {
      execute(info, step_, turn_, false, work, messages);
    } else {
      push({.info = info, .work = std::move(work), .messages = std::move(messages)});
    }
  }
  /// Whether this call is traced.
  bool tracing() const { return tracing_; }
  /// Null if there are none.
  SpareThreads* spare() const { return spare_threads_; }

  const std::string& name() const override { return name_; }
  void begin_call(bool tracing) override {
    tracing_ = tracing;
    flops_ = 0.0;
    turn_ = 0;
    spans_.clear();
  }
  std::vector<TraceSpan> take_spans() override { return std::exchange(spans_, {}); }
  double flops() const override { return flops_; }

 private:
  struct Item {
    WorkInfo info;
    std::int64_t step = -1;
    std::int64_t turn = 0;
    bool always = false;  // runs after a failure too, so that no waiter is left behind
    std::function<void()> work;
    std::vector<TraceMessage> messages = {};
    Item* next = nullptr;
  };
  void push(Item item);
  void append(std::unique_ptr<Item> item);
  std::unique_ptr<Item> take_spare();
  void run();
  template <class Work>
  void execute(const WorkInfo& info, std::int64_t step, std::int64_t turn, bool always, Work& work,
               std::vector<TraceMessage>& messages);

  std::string name_;
  Pulse& pulse_;
  RunsIn runs_in_;
  SpareThreads* spare_threads_;
  std::int64_t step_ = -1;
  std::int64_t turn_ = 0;

  // A linked list with one producer and one consumer; `pushed_` publishes each new item. The
  // consumer keeps the item it took last, so that the producer may still link to it.
  Item* last_ = nullptr;      // producer's end
  std::uint32_t pushes_ = 0;  // producer's count
  OneWayCounter pushed_;
  std::unique_ptr<Item> taken_;  // consumer's end; none without a worker
  // Made early: at the end of a queue, or of a call, there may be no memory for it.
  std::unique_ptr<Item> spare_;
  HostEvent drained_;

  bool tracing_ = false;
  std::vector<TraceSpan> spans_;
  double flops_ = 0.0;
  std::thread worker_;
};

template <class Work>
void HostQueue::execute(const WorkInfo& info, std::int64_t step, std::int64_t turn, bool always,
                        Work& work, std::vector<TraceMessage>& messages) {
  if (pulse_.failed() && !always) {
    return;
  }
  const bool named = *info.name != '\0';
  if (named) {
    pulse_.beat(info.name, step);
  }
  const auto begin = tracing_ ? std::chrono::steady_clock::now() : TraceSpan{}.begin;
  try {
    work();
  } catch (...) {
    pulse_.on_failure(std::current_exception());
    return;
  }
  if (!named) {
    return;  // a record has just told the host that this queue is idle: touch nothing more
  }
  flops_ += info.flops;
  if (tracing_) {
    spans_.push_back({info.name, begin, std::chrono::steady_clock::now(), info.flops, info.bytes,
                      step, turn, std::move(messages)});
  }
}

}  // namespace shardsolve::runtime::host
