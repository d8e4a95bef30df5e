/// A system that has only so many threads left.
#pragma once

#include <cstdint>

namespace shardsolve::testing {

/// While it lives, this process can start `left` threads more, and those that come after fail as
/// they do at a limit of the system: whoever links this has a pthread_create that counts. One
/// object at a time.
class ScarceThreads {
 public:
  explicit ScarceThreads(std::int64_t left);
  ScarceThreads(const ScarceThreads&) = delete;
  ScarceThreads& operator=(const ScarceThreads&) = delete;
  ~ScarceThreads();

  /// Whether a thread was refused.
  static bool struck();
};

/// Threads that the process has once those that have ended are gone from the system's list, if that
/// is down to `expected` soon.
std::int64_t threads_left(std::int64_t expected);
/// Threads of the process now.
std::int64_t count_threads();

}  // namespace shardsolve::testing
