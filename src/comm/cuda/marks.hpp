/// What the stream of one rank passes and streams of other ranks wait for.
#pragma once

#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/host/one_way_counter.hpp"
#include "runtime/queue.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::comm::cuda {

/// Marks in one rank's stream, numbered in their order. A stream waits only for marks that are
/// enqueued: before that, the thread that enqueues the wait looks at the counter.
class Marks {
 public:
  virtual ~Marks() = default;

  /// Counts the marks that are enqueued: the number of the last one, plus 1.
  virtual const runtime::host::OneWayCounter& enqueued() const = 0;
  /// Enqueues mark `number`. Only the rank that the marks belong to calls it.
  virtual void record(runtime::Queue& queue, std::uint32_t number) = 0;
  /// What follows on `queue` starts when the stream has passed mark `number`. That is enqueued.
  virtual void wait(runtime::Queue& queue, std::uint32_t number, const runtime::WaitSite& site) = 0;
};

/// Between ranks of one process: events, each used again after `depth` marks.
class EventMarks final : public Marks {
 public:
  explicit EventMarks(std::uint32_t depth) : events_(depth) {}

  const runtime::host::OneWayCounter& enqueued() const override { return enqueued_; }
  void record(runtime::Queue& queue, std::uint32_t number) override {
    std::unique_ptr<runtime::cuda::CudaEvent>& event = at(number);
    if (!event) {
      event = std::make_unique<runtime::cuda::CudaEvent>();
    }
    queue.record(*event);
    enqueued_.store(number + 1);
  }
  void wait(runtime::Queue& queue, std::uint32_t number, const runtime::WaitSite& site) override {
    queue.wait(*at(number), site);
  }
  /// Only while no rank communicates. Events are kept: making one takes microseconds.
  void reset() { enqueued_.reset(); }

 private:
  std::unique_ptr<runtime::cuda::CudaEvent>& at(std::uint32_t number) {
    return events_[number % events_.size()];
  }

  runtime::host::OneWayCounter enqueued_;
  std::vector<std::unique_ptr<runtime::cuda::CudaEvent>> events_;
};

}  // namespace shardsolve::comm::cuda
