#include "mesh/mesh_state.hpp"

#include "core/floating_point.hpp"
#include "mesh/cuda_loader.hpp"
#include "mesh/host_backend.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/trace.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace shardsolve::mesh {

MeshState::MeshState(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {
  const std::int64_t ranks = backend_->ranks();
  std::vector<runtime::Pulse*> pulses;
  for (std::int64_t r = 0; r < ranks; ++r) {
    seats_.push_back(std::make_unique<Seat>());
    pulses.push_back(&seats_.back()->pulse);
  }
  group_ = std::make_unique<comm::InProcessGroup>(pulses);
  for (std::int64_t r = 0; r < ranks; ++r) {
    Seat& seat = *seats_[static_cast<std::size_t>(r)];
    seat.pulse.on_failure = [this](std::exception_ptr reason) { fail(std::move(reason)); };
    seat.device = backend_->make_device(r, seat.pulse);
    seat.communicator = backend_->make_communicator(*group_, r);
    seat.rank = std::make_unique<Rank>(r, ranks, *seat.device, seat.pulse, *seat.communicator);
  }
}

std::shared_ptr<MeshState> MeshState::start(std::unique_ptr<Backend> backend) {
  auto state = std::make_shared<MeshState>(std::move(backend));
  for (std::int64_t r = 0; r < state->ranks(); ++r) {
    state->seats_[static_cast<std::size_t>(r)]->thread =
        std::thread([state, r] { state->serve(r); });
  }
  return state;
}

void MeshState::shut_down() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  for (auto& seat : seats_) {
    // A rank that never came back keeps its thread, and the state that the thread uses.
    broken_ ? seat->thread.detach() : seat->thread.join();
  }
}

void MeshState::fail(std::exception_ptr reason) {
  bool follows_another = false;
  try {
    std::rethrow_exception(reason);
  } catch (const runtime::Abandoned&) {
    follows_another = true;
  } catch (...) {
    follows_another = false;
  }
  const std::lock_guard lock(mutex_);
  if (!follows_another && !failure_) {
    failure_ = std::move(reason);
  }
  for (auto& seat : seats_) {
    seat->pulse.set_failed(true);
  }
}

void MeshState::serve(std::int64_t index) {
  core::use_ieee_arithmetic();
  Seat& seat = *seats_[static_cast<std::size_t>(index)];
  std::uint64_t served = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || calls_ > served; });
    if (calls_ == served) {
      return;
    }
    served = calls_;
    const std::shared_ptr<const Call> call = current_;
    lock.unlock();
    try {
      seat.rank->adopt_thread();
      seat.rank->begin_call(call->options);
      call->program(*seat.rank);
    } catch (...) {
      fail(std::current_exception());
    }
    seat.rank->drain();
    lock.lock();
    ++drained_;
    changed_.notify_all();
    // Workspace goes only when no rank can still be copying from it.
    changed_.wait(lock, [&] { return drained_ == ranks(); });
    seat.rank->end_call();
    seat.returned = true;
    changed_.notify_all();
  }
}

std::int64_t MeshState::available_memory() const {
  if (lent_) {
    return std::numeric_limits<std::int64_t>::max();
  }
  std::int64_t least_kept = std::numeric_limits<std::int64_t>::max();
  for (const auto& seat : seats_) {
    least_kept = std::min(least_kept, seat->rank->workspace_held());
  }
  return backend_->available_memory() + least_kept;
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
  allocators.resize(seats_.size());
  for (std::size_t r = 0; r < seats_.size(); ++r) {
    seats_[r]->rank->lend_memory(std::move(allocators[r]));
  }
}

bool MeshState::all_returned() const {
  return std::all_of(seats_.begin(), seats_.end(), [](const auto& seat) { return seat->returned; });
}

void MeshState::begin(const RunOptions& options, RankProgram program) {
  group_->reset();
  group_->set_silence_limit(options.silence_limit);
  failure_ = nullptr;
  drained_ = 0;
  current_ = std::make_shared<const Call>(Call{options, std::move(program)});
  for (auto& seat : seats_) {
    seat->pulse.reset();
    seat->communicator->begin_call();
    for (runtime::Queue* queue : seat->rank->queues()) {
      queue->begin_call(options.trace != nullptr);
    }
    seat->returned = false;
  }
  ++calls_;
  changed_.notify_all();
}

void MeshState::await_return(std::unique_lock<std::mutex>& lock) {
  // Without a failure ranks may take as long as they need: those that wait watch those that work.
  changed_.wait(lock, [&] { return all_returned() || failure_ != nullptr; });
  std::vector<std::uint64_t> beats(seats_.size(), 0);
  const auto count_beats = [&] {
    for (std::size_t r = 0; r < seats_.size(); ++r) {
      beats[r] = seats_[r]->pulse.beats();
    }
    return beats;
  };
  while (!all_returned()) {
    const auto before = count_beats();
    if (!changed_.wait_for(lock, group_->silence_limit(), [&] { return all_returned(); }) &&
        count_beats() == before) {
      broken_ = true;
      return;
    }
  }
}

std::vector<double> MeshState::run(const RunOptions& options, RankProgram program) {
  const std::lock_guard one_at_a_time(call_);
  const auto others = backend_->keep_others_away();
  std::unique_lock lock(mutex_);
  if (broken_) {
    throw Error(ErrorKind::communication,
                "a rank of this mesh never came back from an earlier call: make a new mesh");
  }
  begin(options, std::move(program));
  await_return(lock);
  if (!broken_) {
    current_.reset();  // and with it what the program holds of the caller's
  }
  if (failure_) {
    std::rethrow_exception(failure_);
  }
  if (options.trace != nullptr) {
    collect_trace(*options.trace);
  }
  std::vector<double> flops;
  for (auto& seat : seats_) {
    flops.push_back(0.0);
    for (runtime::Queue* queue : seat->rank->queues()) {
      flops.back() += queue->flops();
    }
  }
  return flops;
}

void MeshState::collect_trace(Trace& trace) {
  for (auto& seat : seats_) {
    for (runtime::Queue* queue : seat->rank->queues()) {
      trace.add(seat->rank->index(), queue->name(), queue->take_spans());
    }
  }
}

}  // namespace shardsolve::mesh

namespace shardsolve {

Mesh Mesh::host(std::int64_t ranks) {
  if (ranks < 1 || ranks > max_host_ranks) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} CPU devices asked for; 1 to {} are possible, and more than the "
                            "machine has cores gain no speed",
                            ranks, max_host_ranks));
  }
  return Mesh(mesh::MeshState::start(std::make_unique<mesh::HostBackend>(ranks)));
}

Mesh Mesh::cuda(const std::vector<int>& devices) {
  if (devices.empty()) {
    throw Error(ErrorKind::invalid_argument, "no GPUs listed; at least one is needed");
  }
  const std::set<int> different(devices.begin(), devices.end());
  if (different.size() != devices.size()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("GPUs {} listed; each may appear once", fmt::join(devices, ", ")));
  }
  return Mesh(mesh::MeshState::start(mesh::make_cuda_backend({.devices = devices, .delays = {}})));
}

Mesh::Mesh(std::shared_ptr<mesh::MeshState> state) : state_(std::move(state)) {}
Mesh::Mesh(Mesh&&) noexcept = default;
Mesh& Mesh::operator=(Mesh&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
Mesh::~Mesh() {
  if (state_) {
    state_->shut_down();
  }
}

std::int64_t Mesh::ranks() const { return state_->ranks(); }

Memory Mesh::memory() const { return state_->backend().memory(); }

std::int64_t Mesh::default_tile(std::int64_t n, Dtype dtype) const {
  return state_->backend().default_tile(n, dtype);
}

std::int64_t Mesh::available_memory() const { return state_->available_memory(); }

}  // namespace shardsolve
