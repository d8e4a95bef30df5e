/// How to wait for something that can only be looked at.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace shardsolve::comm {

/// The pauses between looks grow with the time waited: what comes soon is seen soon, and who waits
/// for long leaves the core to those who work.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  void pause() {
    if (looks_++ < quick_looks) {
      std::this_thread::yield();
      return;
    }
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(waited_so_far());
    std::this_thread::sleep_for(std::clamp(waited / 16, shortest, longest));
  }
  Clock::duration waited_so_far() const { return Clock::now() - begin_; }

 private:
  static constexpr int quick_looks = 16;
  static constexpr std::chrono::microseconds shortest{10};
  static constexpr std::chrono::microseconds longest{1000};

  int looks_ = 0;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace shardsolve::comm
