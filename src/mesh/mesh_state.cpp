#include "mesh/mesh_state.hpp"

#include "core/floating_point.hpp"
#include "core/threads.hpp"
#include "mesh/inside_call.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/trace.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace shardsolve::mesh {
namespace {

/// The limit that a call asks for, but no more than a year: clocks count nanoseconds, which
/// overflow after 292 years.
std::chrono::duration<double> usable_limit(std::chrono::duration<double> asked) {
  if (!(asked.count() > 0.0)) {  // nor NaN
    throw Error(ErrorKind::invalid_argument,
                fmt::format("a silence limit of {:g} s given; more than 0 is accepted, and what is "
                            "to be waited for without end is infinity",
                            asked.count()));
  }
  return std::min<std::chrono::duration<double>>(asked, std::chrono::years(1));
}

}  // namespace

MeshState::MeshState(std::unique_ptr<Backend> backend)
    : pulses_(backend->ranks()), backend_(std::move(backend)) {}

std::shared_ptr<MeshState> MeshState::start(std::unique_ptr<Backend> backend) {
  auto state = std::make_shared<MeshState>(std::move(backend));
  try {
    state->make_ranks();
    for (auto& rank_thread : state->rank_threads_) {
      if (state->backend_->runs_in_caller()) {
        continue;
      }
      rank_thread->thread =
          std::thread([state, &rank_thread = *rank_thread] { state->serve(rank_thread); });
    }
  } catch (const std::system_error& none) {
    state->give_up();
    throw core::no_thread_error(fmt::format("a mesh of {} device{} (on the CPU each takes five)",
                                            state->ranks(), state->ranks() == 1 ? "" : "s"),
                                none);
  } catch (...) {
    state->give_up();
    throw;
  }
  return state;
}

void MeshState::make_ranks() {
  comm::ProcessGroup* processes = backend_->processes();
  const auto on_failure = [this](const std::exception_ptr& reason) { fail(reason); };
  for (std::int64_t r = 0; r < ranks(); ++r) {
    if (processes != nullptr && processes->rank() != r) {
      continue;
    }
    rank_threads_.push_back(std::make_unique<RankThread>(pulses_.of(r)));
    RankThread& rank_thread = *rank_threads_.back();
    rank_thread.pulse.on_failure = on_failure;
    rank_thread.device = backend_->make_device(r, rank_thread.pulse);
    rank_thread.communicator = backend_->make_communicator(pulses_, r);
    rank_thread.rank =
        std::make_unique<Rank>(r, ranks(), rank_threads_.size() == 1, *rank_thread.device,
                               rank_thread.pulse, *rank_thread.communicator);
  }
  if (processes != nullptr) {
    processes->attach(pulses_, on_failure);
  }
}

/// The ranks could not be made, or not all of their threads started.
void MeshState::give_up() {
  shut_down();
  if (backend_->processes() != nullptr) {
    backend_->processes()->abandon();
  }
}

MeshState::RankThread* MeshState::rank_thread(std::int64_t rank) const {
  const auto found =
      std::find_if(rank_threads_.begin(), rank_threads_.end(),
                   [rank](const auto& rank_thread) { return rank_thread->rank->index() == rank; });
  return found == rank_threads_.end() ? nullptr : found->get();
}

bool MeshState::speaks() const {
  const std::lock_guard lock(mutex_);
  return call_end_.origin < 0 ? is_here(0) : is_here(call_end_.origin);
}

bool MeshState::broken() const {
  const std::lock_guard lock(mutex_);
  return broken_;
}

void MeshState::shut_down() {
  bool broken = false;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    broken = broken_;
    changed_.notify_all();
  }
  for (auto& rank_thread : rank_threads_) {
    if (!rank_thread->thread.joinable()) {  // the system had none for it
      continue;
    }
    if (broken) {  // a rank that never came back keeps its thread, and the state that it uses
      rank_thread->thread.detach();
    } else {
      rank_thread->thread.join();
    }
  }
}

void MeshState::fail(const std::exception_ptr& reason) {
  const std::optional<comm::Failure> own = comm::describe(reason);
  {
    const std::lock_guard lock(mutex_);
    if (own && !failure_) {  // as an Error, whatever was thrown: what other processes are told
      try {
        failure_ = std::make_exception_ptr(Error(own->kind, std::string(own->text())));
      } catch (const std::bad_alloc&) {
        failure_ = no_memory_;
      }
    }
    for (auto& rank_thread : rank_threads_) {
      rank_thread->pulse.set_failed(true);
    }
    changed_.notify_all();
  }
  if (own && backend_->processes() != nullptr) {
    try {
      backend_->processes()->tell_failure(*own);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
      // The others are told when the call ends.
    }
  }
  for (auto& rank_thread : rank_threads_) {
    rank_thread->communicator->give_up();
  }
}

void MeshState::serve(RankThread& rank_thread) {
  core::use_ieee_arithmetic();
  std::uint64_t served = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || calls_ > served; });
    if (calls_ == served) {
      return;
    }
    served = calls_;
    take_part(lock, rank_thread);
  }
}

/// The rank's part of the present call.
void MeshState::take_part(std::unique_lock<std::mutex>& lock, RankThread& rank_thread) {
  const std::shared_ptr<const Call> call = current_;
  lock.unlock();
  const auto attempt = [this](const auto& part) {
    try {
      part();
    } catch (...) {
      fail(std::current_exception());
    }
  };
  attempt([&] {
    rank_thread.rank->adopt_thread();
    rank_thread.rank->begin_call(call->options);
    const InsideCall inside(*rank_thread.rank);
    call->program(*rank_thread.rank);
  });
  for (const auto& queue : rank_thread.rank->queues()) {
    attempt([&queue] { queue->synchronize(); });  // what a GPU fails with is often found here
  }
  attempt([&] { rank_thread.communicator->end_call(); });
  lock.lock();
  if (drained_ + 1 == rank_threads_.size()) {
    conclude(lock);
  }
  ++drained_;
  changed_.notify_all();
  // Workspace goes only when no rank can still be copying from it.
  changed_.wait(lock, [&] { return drained_ == rank_threads_.size(); });
  if (!call_end_.usable) {
    rank_thread.returned = true;
    broken_ = true;
    changed_.notify_all();
    // For ever: messages of this call may still be on their way, and nothing tells when the last of
    // them is done. A thread that went on would free what they use: the workspace, and what the
    // program holds of the caller's.
    changed_.wait(lock, [] { return false; });
  }
  rank_thread.rank->end_call();
  rank_thread.returned = true;
  changed_.notify_all();
}

/// The last rank of this process has finished: waits for the other processes, and takes over what
/// all have agreed on.
void MeshState::conclude(std::unique_lock<std::mutex>& lock) {
  comm::ProcessGroup* processes = backend_->processes();
  if (processes == nullptr) {
    return;
  }
  const std::optional<comm::Failure> own = failure_ ? comm::describe(failure_) : std::nullopt;
  double flops = 0.0;
  for (const auto& queue : rank_threads_.front()->rank->queues()) {
    flops += queue->flops();
  }
  lock.unlock();
  comm::CallEnd call_end = processes->conclude(own, flops);
  // Perhaps it was found only now: in all processes, or they differ in the next call.
  if (call_end.failure) {
    for (const auto& rank_thread : rank_threads_) {
      rank_thread->communicator->give_up();
    }
  }
  lock.lock();
  if (broken_) {  // this rank was given up meanwhile, and the caller has been told why
    return;
  }
  if (call_end.failure && (call_end.origin != processes->rank() || !failure_)) {
    failure_ = std::make_exception_ptr(
        Error(call_end.failure->kind, std::string(call_end.failure->text())));
  }
  call_end_ = std::move(call_end);
}

std::int64_t MeshState::available_memory(std::int64_t enough) const {
  if (lent_) {
    return std::numeric_limits<std::int64_t>::max();
  }
  // A host gives memory when it is touched.
  const bool on_host = backend_->memory() == Memory::host;
  std::int64_t least_kept = std::numeric_limits<std::int64_t>::max();
  for (const auto& rank_thread : rank_threads_) {
    const std::int64_t held = rank_thread->rank->workspace_held();
    least_kept =
        std::min(least_kept, on_host ? std::min(held, rank_thread->rank->max_workspace()) : held);
  }
  if (least_kept >= enough) {
    return least_kept;
  }
  const std::int64_t free = backend_->available_memory();  // without a limit: the largest number
  return free + std::min(least_kept, std::numeric_limits<std::int64_t>::max() - free);
}

void MeshState::lend_memory(std::vector<runtime::Allocate> allocators) {
  const std::lock_guard between_calls(call_);
  {
    const std::lock_guard lock(mutex_);
    if (broken_) {
      return;  // a rank may still be using what it has
    }
  }
  lent_ = !allocators.empty();
  allocators.resize(rank_threads_.size());
  for (std::size_t r = 0; r < rank_threads_.size(); ++r) {
    rank_threads_[r]->rank->lend_memory(std::move(allocators[r]));
  }
}

bool MeshState::all_returned() const {
  return std::all_of(rank_threads_.begin(), rank_threads_.end(),
                     [](const auto& rank_thread) { return rank_thread->returned; });
}

void MeshState::begin(const RunOptions& options, RankProgram program) {
  const std::chrono::duration<double> limit = usable_limit(options.silence_limit);
  pulses_.set_silence_limit(limit);
  if (backend_->processes() != nullptr) {
    pulses_.set_silence_limit(
        std::max<std::chrono::duration<double>>(limit, comm::ProcessGroup::least_silence_limit));
  }
  failure_ = nullptr;
  call_end_ = {};
  drained_ = 0;
  current_ = std::make_shared<const Call>(Call{options, std::move(program)});
  for (std::int64_t rank = 0; rank < ranks(); ++rank) {
    pulses_.of(rank).reset();
  }
  if (backend_->processes() != nullptr) {
    backend_->processes()->begin_call(options.cancel, options.trace != nullptr);
  }
  for (auto& rank_thread : rank_threads_) {
    rank_thread->communicator->begin_call();
    for (const auto& queue : rank_thread->rank->queues()) {
      queue->begin_call(options.trace != nullptr);
    }
    rank_thread->returned = false;
  }
  ++calls_;
  changed_.notify_all();
}

void MeshState::await_return(std::unique_lock<std::mutex>& lock) {
  // Without a failure ranks may take as long as they need: those that wait watch those that work.
  changed_.wait(lock, [&] { return all_returned() || rank_threads_.front()->pulse.failed(); });
  std::vector<std::uint64_t> beats(rank_threads_.size(), 0);
  const auto count_beats = [&] {
    for (std::size_t r = 0; r < rank_threads_.size(); ++r) {
      beats[r] = rank_threads_[r]->pulse.beats();
    }
    return beats;
  };
  while (!all_returned()) {
    const auto before = count_beats();
    if (!changed_.wait_for(lock, pulses_.silence_limit(), [&] { return all_returned(); }) &&
        count_beats() == before) {
      give_rank_up();
      return;
    }
  }
}

bool MeshState::await_ranks(std::chrono::steady_clock::duration patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return all_returned(); });
}

/// A rank has not come back from a call that has failed.
void MeshState::give_rank_up() {
  broken_ = true;
  comm::ProcessGroup* processes = backend_->processes();
  if (processes == nullptr) {
    return;
  }
  call_end_ = processes->leave();
  if (failure_) {
    call_end_.origin = processes->rank();
    return;
  }
  const comm::Failure told = call_end_.failure.value_or(
      comm::Failure{ErrorKind::communication, "the call has failed in another process"});
  failure_ = std::make_exception_ptr(Error(told.kind, std::string(told.text())));
}

/// One call from begin to end; what it has failed with is in failure_.
void MeshState::perform(std::unique_lock<std::mutex>& lock, const RunOptions& options,
                        RankProgram program) {
  begin(options, std::move(program));
  if (backend_->runs_in_caller()) {
    const core::IeeeArithmetic arithmetic;
    take_part(lock, *rank_threads_.front());
  } else {
    await_return(lock);
  }
  if (!broken_) {
    current_.reset();  // and with it what the program holds of the caller's
  }
}

/// What meeting(processes, pulse) returns, in a call of all processes for nothing else.
template <class Meeting>
auto MeshState::meet(std::unique_lock<std::mutex>& lock, const RunOptions& options,
                     Meeting meeting) {
  using Result = std::invoke_result_t<Meeting, comm::ProcessGroup&, runtime::Pulse&>;
  const auto result = std::make_shared<Result>();
  perform(lock, options,
          [result, meeting = std::move(meeting), processes = backend_->processes(),
           &pulse = rank_threads_.front()->pulse](Rank&) { *result = meeting(*processes, pulse); });
  if (failure_) {
    std::rethrow_exception(failure_);
  }
  return std::move(*result);
}

/// Adds what the last call has left, of all processes to the trace of rank 0's. That a call has
/// failed is more important than that its trace is not to be had.
void MeshState::add_trace(std::unique_lock<std::mutex>& lock, const RunOptions& options,
                          const std::vector<comm::ClockReading>& clocks) {
  const std::exception_ptr failure = failure_;
  const comm::CallEnd call_end = call_end_;
  try {
    GatheredTrace all;
    for (auto& rank_thread : rank_threads_) {
      for (const auto& queue : rank_thread->rank->queues()) {
        all.lanes.push_back({rank_thread->rank->index(), queue->name(), queue->take_spans()});
      }
    }
    if (backend_->processes() != nullptr) {
      all = meet(lock, options,
                 [clocks, own = std::move(all.lanes)](comm::ProcessGroup& processes,
                                                      runtime::Pulse& pulse) {
                   return gather_trace(processes, pulse, clocks, own);
                 });
    }
    options.trace->begin_call();
    for (Trace::Lane& lane : all.lanes) {
      options.trace->add(lane.rank, lane.queue, std::move(lane.spans));
    }
    for (const TraceClock& clock : all.clocks) {
      options.trace->set_clock(clock);
    }
  } catch (...) {
    if (!failure) {
      throw;
    }
  }
  failure_ = failure;
  call_end_ = call_end;
}

void MeshState::require_whole() const {
  if (broken_) {
    throw Error(ErrorKind::communication,
                "a rank of this mesh was lost in an earlier call: make a new mesh");
  }
}

void MeshState::require_outside() const {
  for (const auto& rank_thread : rank_threads_) {
    if (InsideCall::rank() == rank_thread->rank.get()) {
      throw Error(ErrorKind::invalid_argument,
                  "a function that was given to a call on a mesh has made a call on the same mesh, "
                  "which would wait for itself: use another one there, such as Mesh::serial()");
    }
  }
}

CallCost MeshState::run(const RunOptions& options, RankProgram program) {
  require_outside();
  const std::lock_guard one_at_a_time(call_);
  const auto others = backend_->keep_others_away();
  std::unique_lock lock(mutex_);
  require_whole();
  std::vector<comm::ClockReading> clocks;
  if (options.trace != nullptr && backend_->processes() != nullptr) {
    clocks = meet(lock, options, read_clocks);
    require_whole();
  }
  const auto start = std::chrono::steady_clock::now();
  perform(lock, options, std::move(program));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  const CallCost cost{taken.count(), failure_ ? std::vector<double>{} : flops()};
  if (options.trace != nullptr && !broken_) {
    add_trace(lock, options, clocks);
  }
  if (failure_) {
    std::rethrow_exception(failure_);
  }
  return cost;
}

std::vector<double> MeshState::flops() const {
  if (backend_->processes() != nullptr) {
    return call_end_.flops;
  }
  std::vector<double> by_rank;
  for (const auto& rank_thread : rank_threads_) {
    by_rank.push_back(0.0);
    for (const auto& queue : rank_thread->rank->queues()) {
      by_rank.back() += queue->flops();
    }
  }
  return by_rank;
}

}  // namespace shardsolve::mesh
