#include "tests/unit/scarce_threads.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <limits>
#include <thread>

namespace {

constexpr std::int64_t plenty = std::numeric_limits<std::int64_t>::max() / 2;
std::atomic<std::int64_t> threads_to_spare{plenty};

}  // namespace

/// Takes the place of the C library's for the whole program, libstdc++ included: for that it has to
/// be in the program itself and in none of its archives, whose symbols are hidden.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) noexcept {
  if (threads_to_spare.fetch_sub(1, std::memory_order_relaxed) <= 0) {
    return EAGAIN;
  }
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(::dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, body, argument);
}

namespace shardsolve::testing {

ScarceThreads::ScarceThreads(std::int64_t left) { threads_to_spare = left; }
ScarceThreads::~ScarceThreads() { threads_to_spare = plenty; }
bool ScarceThreads::struck() { return threads_to_spare < 0; }

std::int64_t count_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

std::int64_t threads_left(std::int64_t expected) {
  for (int look = 0; look < 200 && count_threads() > expected; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return count_threads();
}

}  // namespace shardsolve::testing
