#include "deadline.hpp"

#include "core/threads.hpp"

#include <system_error>
#include <utility>

namespace shardsolve::cli {

Deadline::Deadline(std::chrono::duration<double> limit, std::function<void()> expire) {
  try {
    watcher_ = std::thread([this, limit, expire = std::move(expire)] {
      std::unique_lock lock(mutex_);
      if (!changed_.wait_for(lock, limit, [this] { return met_; })) {
        expire();
      }
    });
  } catch (const std::system_error& none) {
    throw core::no_thread_error("watching the time", none);
  }
}

Deadline::~Deadline() {
  {
    const std::lock_guard lock(mutex_);
    met_ = true;
    changed_.notify_all();
  }
  watcher_.join();
}

}  // namespace shardsolve::cli
