/// An end for calls that nothing can interrupt.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace shardsolve::cli {

/// Unless it is gone within `limit`, calls `expire` on a thread of its own. That ends the process:
/// the thread which this object is to watch over will not come back.
class Deadline {
 public:
  /// Throws Error(device) if the system has no thread to spare.
  Deadline(std::chrono::duration<double> limit, std::function<void()> expire);
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  ~Deadline();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool met_ = false;
  std::thread watcher_;
};

}  // namespace shardsolve::cli
