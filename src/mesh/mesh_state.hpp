/// The ranks of a mesh that are in this process, and the threads that run their programs.
#pragma once

#include "mesh/backend.hpp"
#include "mesh/rank.hpp"
#include "mesh/trace_gathering.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/tile_table.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace shardsolve::mesh {

using RankProgram = std::function<void(Rank&)>;

/// What a call has taken.
struct CallCost {
  double seconds = 0.0;
  std::vector<double> flops;  ///< by rank
};

/// Runs one program on all ranks. Agreement: a rank that throws makes all others leave at their
/// next wait; the call reports what the first one threw, in every process of the mesh.
class MeshState {
 public:
  /// For start().
  explicit MeshState(std::unique_ptr<Backend> backend);
  /// Makes the ranks and starts their threads, which keep the state alive. Throws Error(device),
  /// and leaves nothing behind, if the system has no threads to spare.
  static std::shared_ptr<MeshState> start(std::unique_ptr<Backend> backend);
  void shut_down();

  std::int64_t ranks() const { return backend_->ranks(); }
  /// Whether the rank is in this process.
  bool is_here(std::int64_t rank) const { return rank_thread(rank) != nullptr; }
  const Backend& backend() const { return *backend_; }
  /// Bytes that a call can have on each rank: what its device has free and what the rank keeps. The
  /// largest number if memory is lent, as its limit is not known. Devices are asked, which takes
  /// time, only if the ranks keep less than `enough`.
  std::int64_t available_memory(std::int64_t enough) const;
  /// From the next call on allocators[r] gives the workspace of rank r; if there are none, the
  /// devices do again. All ranks have to be in this process. The caller sees to it that nobody else
  /// makes the next call.
  void lend_memory(std::vector<runtime::Allocate> allocators);
  runtime::Device& device(std::int64_t rank) { return *rank_thread(rank)->device; }
  /// Whether this process reports the last call to the user: the process in which it failed does,
  /// or else that of rank 0.
  bool speaks() const;
  /// Whether a rank has not come back from a call: every later one throws.
  bool broken() const;
  /// After a call: waits for ranks of this process that were given up, as they may still be using
  /// memory of the caller. False if one has not come back when `patience` is over.
  bool await_ranks(std::chrono::steady_clock::duration patience);
  /// Runs `program` on every rank and returns when all have finished. Calls run one at a time; one
  /// that is made inside of another, by a function of the caller, is refused. If a
  /// rank never comes back, this call throws after the silence limit, and every later one throws.
  /// Processes of a traced call meet before and after it, which its cost does not include.
  CallCost run(const RunOptions& options, RankProgram program);

  /// The table that Mesh::default_tile() looks at; calls do not use it.
  TileTable tiles;

 private:
  /// What the ranks of one call share; a rank that never comes back keeps it.
  struct Call {
    RunOptions options;
    RankProgram program;
  };
  /// One rank of this process: the thread that runs its programs, and what it is made of.
  struct RankThread {
    explicit RankThread(runtime::Pulse& of_rank) : pulse(of_rank) {}

    runtime::Pulse& pulse;
    std::unique_ptr<runtime::Device> device;
    std::unique_ptr<comm::Communicator> communicator;
    std::unique_ptr<Rank> rank;
    std::thread thread;
    bool returned = true;
  };

  void make_ranks();
  void give_up();
  RankThread* rank_thread(std::int64_t rank) const;
  void serve(RankThread& rank_thread);
  void take_part(std::unique_lock<std::mutex>& lock, RankThread& rank_thread);
  void conclude(std::unique_lock<std::mutex>& lock);
  void require_whole() const;
  void require_outside() const;
  void fail(const std::exception_ptr& reason);
  void begin(const RunOptions& options, RankProgram program);
  void await_return(std::unique_lock<std::mutex>& lock);
  void give_rank_up();
  void perform(std::unique_lock<std::mutex>& lock, const RunOptions& options, RankProgram program);
  bool all_returned() const;
  std::vector<double> flops() const;

  template <class Meeting>
  auto meet(std::unique_lock<std::mutex>& lock, const RunOptions& options, Meeting meeting);
  void add_trace(std::unique_lock<std::mutex>& lock, const RunOptions& options,
                 const std::vector<comm::ClockReading>& clocks);

  comm::Pulses pulses_;
  std::unique_ptr<Backend> backend_;
  std::vector<std::unique_ptr<RankThread>> rank_threads_;  // of the ranks of this process

  std::mutex call_;  // held for the length of a call
  std::atomic<bool> lent_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::uint64_t calls_ = 0;
  bool closing_ = false;
  bool broken_ = false;
  std::shared_ptr<const Call> current_;
  std::exception_ptr failure_;
  /// Made while there is some.
  const std::exception_ptr no_memory_ =
      std::make_exception_ptr(Error(ErrorKind::out_of_memory, comm::no_memory_text));
  std::size_t drained_ = 0;
  comm::CallEnd call_end_;  // of the processes, if there are several
};

}  // namespace shardsolve::mesh
