#include "jax/workers.hpp"

#include "core/floating_point.hpp"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace shardsolve::jax {
namespace {

class Workers {
 public:
  void run_soon(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
    if (idle_ >= waiting_.size()) {
      changed_.notify_one();
    } else {
      try {
        std::thread([this] { serve(); }).detach();
      } catch (const std::system_error&) {
        waiting_.pop_back();
        throw;
      }
    }
  }

 private:
  [[noreturn]] void serve() {
    core::use_ieee_arithmetic();
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [this] { return !waiting_.empty(); });
      --idle_;
      const std::function<void()> work = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::size_t idle_ = 0;
};

}  // namespace

void run_soon(std::function<void()> work) {
  // Never destroyed: its threads outlive the end of main.
  static auto& workers = *new Workers;
  workers.run_soon(std::move(work));
}

}  // namespace shardsolve::jax
