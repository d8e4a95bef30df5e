#include "mesh/rank.hpp"

#include "core/threads.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

namespace shardsolve::mesh {
namespace {

/// What a call of one kind takes of the host is little, and locking memory for GPUs is slow.
constexpr std::size_t host_memory_besides = std::size_t{16} << 20U;

}  // namespace

Rank::Rank(std::int64_t index, std::int64_t count, bool leads, runtime::Device& device,
           runtime::Pulse& pulse, comm::Communicator& communicator)
    : index_(index),
      count_(count),
      leads_(leads),
      device_(device),
      pulse_(pulse),
      communicator_(communicator),
      panel_(&make_queue({"panel", runtime::Priority::critical_path})),
      update_(&make_queue({"update", runtime::Priority::bulk})),
      transfer_(&make_queue({"transfer", runtime::Priority::critical_path})),
      panel_rest_(&make_queue({"rest", runtime::Priority::critical_path})),
      workspace_([&device](std::size_t bytes) { return device.allocate(bytes); }),
      host_workspace_([&device](std::size_t bytes) { return device.allocate_host(bytes); },
                      host_memory_besides) {}

runtime::Queue& Rank::make_queue(const QueueRole& role) {
  return *queues_.emplace_back(device_.make_queue(role.name, role.priority));
}

runtime::Queue& Rank::queue(const QueueRole& role) {
  for (const auto& queue : queues_) {
    if (queue->name() == role.name) {
      return *queue;
    }
  }
  try {
    runtime::Queue& queue = make_queue(role);
    queue.begin_call(options_->trace != nullptr);
    queue.set_step(step_);
    return queue;
  } catch (const std::system_error& none) {
    throw core::no_thread_error(fmt::format("the queue '{}' of rank {}", role.name, index_), none);
  }
}

void Rank::lend_memory(runtime::Allocate allocate) {
  lent_.reset();
  if (allocate) {
    lent_.emplace(std::move(allocate));
  }
}

void Rank::expect_workspace(std::int64_t bytes) {
  if (lent_) {
    return;
  }
  const std::size_t room = workspace_.room_for(static_cast<std::size_t>(bytes));
  workspace_.drop_idle();
  try {
    if (const comm::Bytes kept = communicator_.make_workspace(room); kept.size > 0) {
      use_room(kept);
    } else {
      workspace_.make_room(room);
    }
  } catch (...) {
    use_room(communicator_.workspace());
    throw;
  }
}

comm::Window& Rank::window(std::int64_t bytes) {
  const MatrixView<std::byte> memory = workspace<std::byte>(bytes, 1);
  windows_.push_back(communicator_.make_window({memory.data(), static_cast<std::size_t>(bytes)}));
  return *windows_.back();
}

runtime::Event& Rank::event() {
  if (events_in_use_ == events_.size()) {
    events_.push_back(device_.make_event());
  }
  return *events_[events_in_use_++];
}

void Rank::report(std::string_view phase, double fraction) {
  if (index_ != 0 || !options_->progress) {
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (phase != phase_) {
    phase_ = phase;
    phase_begin_ = now;
  } else if (now - reported_ < std::chrono::milliseconds(100) && fraction < 1.0) {
    return;
  }
  reported_ = now;
  const double seconds = std::chrono::duration<double>(now - phase_begin_).count();
  const double remaining = fraction > 0.0 ? seconds * (1.0 - fraction) / fraction : 0.0;
  options_->progress({phase, fraction, seconds, remaining});
}

void Rank::set_step(std::int64_t step) {
  step_ = step;
  for (const auto& queue : queues_) {
    queue->set_step(step);
  }
}

void Rank::begin_call(const RunOptions& options) {
  options_ = &options;
  phase_ = {};
  set_step(-1);
}

void Rank::end_call() {
  windows_.clear();
  workspace_.give_back();
  if (lent_) {
    lent_->give_back();
  }
  host_workspace_.give_back();
  events_in_use_ = 0;
  options_ = nullptr;
}

}  // namespace shardsolve::mesh
