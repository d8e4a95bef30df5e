/// What a rank program receives: one device, its queues and its line to the other ranks.
#pragma once

#include "comm/communicator.hpp"
#include "runtime/device.hpp"
#include "runtime/kernels.hpp"
#include "runtime/pulse.hpp"
#include "runtime/workspace.hpp"

#include <shardsolve/run_options.hpp>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardsolve::mesh {

/// What a queue is for. Programs that name the same role share its queue.
struct QueueRole {
  const char* name;  ///< in traces and messages
  runtime::Priority priority;
};

/// One rank during one call. Its program only enqueues; events and workspace that it takes here
/// live until all ranks have finished the call, so that nobody reads memory that is gone.
class Rank {
 public:
  /// With the four queues named below.
  Rank(std::int64_t index, std::int64_t count, bool leads, runtime::Device& device,
       runtime::Pulse& pulse, comm::Communicator& communicator);

  std::int64_t index() const { return index_; }
  std::int64_t count() const { return count_; }
  /// Whether it is the first rank of its process. That one does what a program does once a process.
  bool leads() const { return leads_; }

  /// The critical path: diagonal tiles and panels.
  runtime::Queue& panel() { return *panel_; }
  /// The bulk of the work.
  runtime::Queue& update() { return *update_; }
  /// Everything that involves other ranks. The only queue that the communicator is used on.
  runtime::Queue& transfer() { return *transfer_; }
  /// Computes the parts of panels that panel() leaves to it, at the same time: while one of the two
  /// waits for multiprocessors of a GPU that updates occupy, the other works. "rest" in traces.
  runtime::Queue& panel_rest() { return *panel_rest_; }
  /// The queue of another role: made when a program first asks, and kept for later calls. To be
  /// asked for before the program sends anything, as a GPU may finish its work before it makes one.
  /// Throws Error(device) where the host has no thread for it, Error(out_of_memory).
  runtime::Queue& queue(const QueueRole& role);
  comm::Communicator& communicator() { return communicator_; }

  /// Those that all algorithms use, kernels<double>(), or a set by its class,
  /// kernels<CholeskyKernels<double>>(). See Device::kernels.
  template <class Wanted>
  const runtime::KernelSetOf<Wanted>& kernels() const {
    return device_.kernels<runtime::KernelSetOf<Wanted>>();
  }

  /// Announces how many bytes of workspace this call plans to take. Either all ranks call it,
  /// before their first workspace(), or none does. Throws Error(out_of_memory).
  void expect_workspace(std::int64_t bytes);
  /// Device memory for this call, not initialised. Throws Error(out_of_memory).
  template <class T>
  MatrixView<T> workspace(std::int64_t rows, std::int64_t columns) {
    const std::size_t bytes = static_cast<std::size_t>(rows * columns) * sizeof(T);
    runtime::Workspace& from = lent_ ? *lent_ : workspace_;
    return {static_cast<T*>(from.take(bytes)), rows, columns};
  }
  /// Likewise, from the device even if the caller has lent memory: other devices can reach it.
  template <class T>
  MatrixView<T> reachable_workspace(std::int64_t rows, std::int64_t columns) {
    const std::size_t bytes = static_cast<std::size_t>(rows * columns) * sizeof(T);
    return {static_cast<T*>(workspace_.take(bytes)), rows, columns};
  }
  /// Host memory for this call that queues may write to, zeroed.
  template <class T>
  T* host_workspace(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    return static_cast<T*>(std::memset(host_workspace_.take(bytes), 0, bytes));
  }
  /// A window over `bytes` of workspace on every rank; see comm::Window. Lives as long as the call.
  comm::Window& window(std::int64_t bytes);
  runtime::Event& event();

  /// Throws Error(invalid_argument) if `memory`, which is `what` and by the caller of that `kind`,
  /// does not lie where this rank's device computes.
  void require_device_memory(const void* memory, Memory kind, const char* what) const {
    device_.require_device_memory(memory, kind, what);
  }

  /// Copies `count` values of device memory that `queue` has produced to the host, and waits for
  /// them. Not for loops.
  template <class T>
  std::vector<T> fetch(runtime::Queue& queue, const T* source, std::int64_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    queue.copy(values.data(), source, values.size() * sizeof(T));
    finish(queue);
    return values;
  }

  /// Likewise, without waiting: the values lie in host memory of this call and may be read when the
  /// queue has made the copy.
  template <class T>
  const T* fetch_later(runtime::Queue& queue, const T* source, std::int64_t count) {
    T* const values = host_workspace<T>(count);
    queue.copy(values, source, static_cast<std::size_t>(count) * sizeof(T));
    return values;
  }

  /// Copies `count` values of the host to device memory of this call and waits for the copy:
  /// afterwards the host's values may change.
  template <class T>
  const T* upload(runtime::Queue& queue, const T* source, std::int64_t count) {
    const MatrixView<T> target = workspace<T>(count, 1);
    queue.copy(target.data(), source, static_cast<std::size_t>(count) * sizeof(T));
    queue.synchronize();
    return target.data();
  }

  /// Waits until all of the queue is done, and leaves the program if a rank has failed. Not for
  /// loops.
  void finish(runtime::Queue& queue) const {
    queue.synchronize();
    leave_if_failed();
  }

  /// Throws if this rank or another has failed: leaves the program.
  void leave_if_failed() const {
    if (pulse_.failed()) {
      throw runtime::Abandoned{};
    }
  }
  /// A sign of life during work that is on no queue. If no other one follows, the error names
  /// `doing`, a string literal.
  void beat(const char* doing) { pulse_.beat(doing, -1); }
  const RunOptions& options() const { return *options_; }
  bool stop_requested() const { return options_->cancel.stop_requested(); }
  /// Tells the caller how far the phase is, now and then; rank 0's word counts.
  void report(std::string_view phase, double fraction);
  /// The step that is enqueued next, for traces and messages.
  void set_step(std::int64_t step);

  // For the mesh.
  void adopt_thread() { device_.adopt_thread(); }
  /// Bytes of device memory that it keeps for the next call.
  std::int64_t workspace_held() const { return static_cast<std::int64_t>(workspace_.held()); }
  /// The most bytes that any call has taken of it.
  std::int64_t max_workspace() const { return static_cast<std::int64_t>(workspace_.most()); }
  /// From the next call on `allocate` gives the workspace; if it is empty, the device does again.
  /// Only between calls.
  void lend_memory(runtime::Allocate allocate);
  void begin_call(const RunOptions& options);
  void end_call();
  const std::vector<std::unique_ptr<runtime::Queue>>& queues() const { return queues_; }

 private:
  runtime::Queue& make_queue(const QueueRole& role);
  void use_room(comm::Bytes room) {
    workspace_.use({static_cast<std::byte*>(room.data), room.size});
  }

  std::int64_t index_;
  std::int64_t count_;
  bool leads_;
  runtime::Device& device_;
  runtime::Pulse& pulse_;
  comm::Communicator& communicator_;
  std::vector<std::unique_ptr<runtime::Queue>> queues_;
  runtime::Queue* panel_;
  runtime::Queue* update_;
  runtime::Queue* transfer_;
  runtime::Queue* panel_rest_;

  const RunOptions* options_ = nullptr;
  std::int64_t step_ = -1;
  runtime::Workspace workspace_;
  std::optional<runtime::Workspace> lent_;  // instead of it
  runtime::Workspace host_workspace_;
  std::vector<std::unique_ptr<comm::Window>> windows_;
  std::vector<std::unique_ptr<runtime::Event>> events_;
  std::size_t events_in_use_ = 0;

  std::string_view phase_;
  std::chrono::steady_clock::time_point phase_begin_;
  std::chrono::steady_clock::time_point reported_;
};

}  // namespace shardsolve::mesh
