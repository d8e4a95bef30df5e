#include "runtime/host/one_way_counter.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace shardsolve::runtime::host {
namespace {

using Scope = OneWayCounter::Scope;

void futex_sleep(const std::atomic<std::uint32_t>& word, Scope scope, std::uint32_t seen,
                 const std::timespec* limit) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  // Returns early when the word has changed, on a signal and at the limit; callers look again.
  const int operation = scope == Scope::process ? FUTEX_WAIT_PRIVATE : FUTEX_WAIT;
  syscall(SYS_futex, &word, operation, seen, limit, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word, Scope scope) {
  const int operation = scope == Scope::process ? FUTEX_WAKE_PRIVATE : FUTEX_WAKE;
  syscall(SYS_futex, &word, operation, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

void OneWayCounter::store(std::uint32_t count) {
  count_.store(count, std::memory_order_release);
  futex_wake_all(count_, scope_);
}

void OneWayCounter::wait(std::uint32_t target) const {
  for (std::uint32_t seen = load(); !reached(seen, target); seen = load()) {
    futex_sleep(count_, scope_, seen, nullptr);
  }
}

bool OneWayCounter::wait_for(std::uint32_t target, std::chrono::milliseconds limit) const {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (std::uint32_t seen = load(); !reached(seen, target); seen = load()) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= left.zero()) {
      return false;
    }
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const std::timespec timeout{ns / 1'000'000'000, ns % 1'000'000'000};
    futex_sleep(count_, scope_, seen, &timeout);
  }
  return true;
}

}  // namespace shardsolve::runtime::host
