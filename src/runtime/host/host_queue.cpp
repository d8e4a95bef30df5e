#include "runtime/host/host_queue.hpp"

#include "core/floating_point.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace shardsolve::runtime::host {

void HostEvent::synchronize(const WaitSite& site) {
  if (!skipped(site)) {
    completed_.wait(recorded_);
  }
}

HostQueue::HostQueue(std::string name, Pulse& pulse, RunsIn runs_in, SpareThreads* spare)
    : name_(std::move(name)), pulse_(pulse), runs_in_(runs_in), spare_threads_(spare) {
  if (runs_in == RunsIn::own_thread) {
    taken_ = std::make_unique<Item>();
    spare_ = std::make_unique<Item>();
    last_ = taken_.get();
    worker_ = std::thread([this] { run(); });
  }
}

HostQueue::~HostQueue() {
  if (runs_in_ == RunsIn::caller) {
    return;
  }
  append(take_spare());  // no work: the end
  worker_.join();
}

void HostQueue::push(Item item) {
  item.step = step_;
  item.turn = turn_;
  append(std::make_unique<Item>(std::move(item)));
}

std::unique_ptr<HostQueue::Item> HostQueue::take_spare() {
  return spare_ ? std::move(spare_) : std::make_unique<Item>();
}

void HostQueue::append(std::unique_ptr<Item> item) {
  last_->next = item.release();
  last_ = last_->next;
  pushed_.store(++pushes_);
}

void HostQueue::record(Event& event) {
  auto& host_event = static_cast<HostEvent&>(event);
  const std::uint32_t count = ++host_event.recorded_;
  if (runs_in_ == RunsIn::caller) {
    host_event.completed_.reset(count);
    return;
  }
  push({.always = true, .work = [&host_event, count] { host_event.completed_.store(count); }});
}

void HostQueue::wait(Event& event, const WaitSite& site) {
  if (skipped(site) || runs_in_ == RunsIn::caller) {
    return;
  }
  auto& host_event = static_cast<HostEvent&>(event);
  const std::uint32_t count = host_event.recorded_;
  push({.info = {.name = "wait"}, .always = true, .work = [&host_event, count] {
          host_event.completed_.wait(count);
        }});
}

void HostQueue::synchronize() {
  static constexpr WaitSite drain{0, "end of a queue"};
  if (runs_in_ == RunsIn::caller) {
    return;
  }
  std::unique_ptr<Item> item = take_spare();
  item->always = true;
  item->work = [this, count = ++drained_.recorded_] { drained_.completed_.store(count); };
  append(std::move(item));
  drained_.synchronize(drain);
  spare_.reset(new (std::nothrow) Item);
}

void HostQueue::store(std::int64_t* target, std::int64_t value, std::int64_t count) {
  launch({.name = "store"}, [=] { std::fill_n(target, count, value); });
}

void HostQueue::clear(void* target, std::size_t bytes) {
  if (bytes > 0) {  // memset takes no null pointer, not even for nothing
    launch({.name = "clear"}, [=] { std::memset(target, 0, bytes); });
  }
}

void HostQueue::copy(void* target, const void* source, std::size_t bytes) {
  if (bytes > 0) {  // nor memcpy
    launch({.name = "copy"}, [=] { std::memcpy(target, source, bytes); });
  }
}

void HostQueue::run() {
  core::use_ieee_arithmetic();
  for (std::uint32_t count = 1;; ++count) {
    pushed_.wait(count);
    Item* item = taken_->next;
    taken_.reset(item);
    if (!item->work) {
      return;
    }
    execute(item->info, item->step, item->turn, item->always, item->work, item->messages);
    item->work = nullptr;
  }
}

}  // namespace shardsolve::runtime::host
