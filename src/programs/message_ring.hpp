/// What travels at each step of an algorithm, and when its memory may be used again.
#pragma once

#include "comm/window.hpp"
#include "mesh/rank.hpp"
#include "programs/step_flags.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::programs {

/// Slots that are used in turn. With three, the message of one step is being read, that of the next
/// is arriving, the one after that is being written. A slot is a window of `capacity` elements
/// behind one header. All ranks enqueue, for each step:
///   1. await_done: the transfer queue waits until this rank has read the slot's last message;
///   2. begin: gives that message up;
///   3. await_free, the root alone: its writer waits until all ranks have given that message up;
///   4. the root alone: writes header and payload, in any order;
///   5. publish, publish_part: header and payload to all; the transfer queue records arrived;
///   6. reads the message behind arrived; the queue that reads last records done.
/// An algorithm leaves out a wait that another one of its waits implies.
template <Scalar T>
class MessageRing {
 public:
  MessageRing(mesh::Rank& rank, std::int64_t slots, std::int64_t capacity)
      : rank_(rank), free_(rank.event()), ring_(static_cast<std::size_t>(slots)) {
    for (Slot& slot : ring_) {
      slot.window =
          &rank.window((header_elements + capacity) * static_cast<std::int64_t>(sizeof(T)));
      slot.arrived = &rank.event();
      slot.done = &rank.event();
    }
  }

  /// The transfer queue goes on when this rank has read the slot's last message.
  void await_done(std::int64_t step, const runtime::WaitSite& site) {
    rank_.transfer().wait(*at(step).done, site);
  }
  /// Gives up the slot's last message, which this rank has read. If this rank is to write to the
  /// slot, the transfer queue goes on only when all ranks have given it up.
  void begin(std::int64_t step, bool writes) {
    Slot& slot = at(step);
    slot.window->release(rank_.transfer());
    if (writes) {
      slot.window->reclaim(rank_.transfer());
      rank_.transfer().record(free_);
    }
  }
  /// What is enqueued on `writer` from now on may write to the slot that was begun last.
  void await_free(runtime::Queue& writer, const runtime::WaitSite& site) {
    writer.wait(free_, site);
  }

  StepHeader* header(std::int64_t step, std::int64_t root) const {
    return reinterpret_cast<StepHeader*>(at(step).window->base(root));
  }
  /// The root's elements from `offset` on, as a matrix without gaps.
  MatrixView<T> payload(std::int64_t step, std::int64_t root, std::int64_t offset,
                        std::int64_t rows, std::int64_t columns) const {
    T* elements = reinterpret_cast<T*>(at(step).window->base(root)) + header_elements;
    return {elements + offset, rows, columns};
  }
  /// Fills in the header: asks all ranks to stop if this one was asked to.
  void stamp(runtime::Queue& writer, std::int64_t step) const {
    StepHeader* own = header(step, rank_.index());
    writer.store(&own->pivot, 0, sizeof(StepHeader) / sizeof(std::int64_t));
    if (rank_.stop_requested()) {
      writer.store(&own->stop, 1, 1);
    }
  }

  /// The header and the first `elements` of the payload of one rank, to all.
  void publish(std::int64_t step, std::int64_t root, std::int64_t elements) {
    at(step).window->publish(rank_.transfer(), {root, 0, bytes(header_elements + elements)});
  }
  /// `elements` of the payload of one rank from `offset` on, to all.
  void publish_part(std::int64_t step, std::int64_t root, std::int64_t offset,
                    std::int64_t elements) {
    at(step).window->publish(rank_.transfer(),
                             {root, bytes(header_elements + offset), bytes(elements)});
  }
  /// To be recorded on the transfer queue when the step's message is here.
  runtime::Event& arrived(std::int64_t step) const { return *at(step).arrived; }
  /// To be recorded on the queue that reads the slot last.
  runtime::Event& done(std::int64_t step) const { return *at(step).done; }

 private:
  struct Slot {
    comm::Window* window = nullptr;
    runtime::Event* arrived = nullptr;
    runtime::Event* done = nullptr;
  };
  static constexpr auto header_elements = static_cast<std::int64_t>(sizeof(StepHeader) / sizeof(T));

  static std::size_t bytes(std::int64_t elements) {
    return static_cast<std::size_t>(elements) * sizeof(T);
  }
  Slot& at(std::int64_t step) { return ring_[static_cast<std::size_t>(step) % ring_.size()]; }
  const Slot& at(std::int64_t step) const {
    return ring_[static_cast<std::size_t>(step) % ring_.size()];
  }

  mesh::Rank& rank_;
  runtime::Event& free_;
  std::vector<Slot> ring_;
};

}  // namespace shardsolve::programs
