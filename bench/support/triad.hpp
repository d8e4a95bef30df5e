/// What the memory gives, measured beside what uses it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace shardsolve::bench {

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// a = b + s c on several threads, each with a part.
class Triad {
 public:
  /// 3 arrays of 64 MiB: no cache holds them.
  explicit Triad(std::int64_t threads)
      : threads_(threads), a_(length), b_(length, 1), c_(length, 2) {}

  double bytes() const { return 3.0 * sizeof(double) * length; }
  double seconds() {
    const auto start = Clock::now();
    std::vector<std::thread> threads;
    for (std::int64_t t = 0; t < threads_; ++t) {
      threads.emplace_back(
          [this, begin = length * t / threads_, end = length * (t + 1) / threads_] {
            double* const a = a_.data();
            const double* const b = b_.data();
            const double* const c = c_.data();
            for (std::int64_t i = begin; i < end; ++i) {
              a[i] = b[i] + 3.0 * c[i];
            }
          });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    return seconds_since(start);
  }

 private:
  static constexpr std::int64_t length = std::int64_t{8} << 20;
  std::int64_t threads_;
  std::vector<double> a_;
  std::vector<double> b_;
  std::vector<double> c_;
};

}  // namespace shardsolve::bench
