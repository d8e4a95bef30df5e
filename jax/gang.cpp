#include "jax/gang.hpp"

#include "jax/workers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace shardsolve::jax {
namespace {

using Clock = std::chrono::steady_clock;
using xla::ffi::Error;
using xla::ffi::Future;
using xla::ffi::Promise;

std::atomic<double> limit_seconds{300.0};

/// The ranks of one call, as far as they have come.
struct Gang {
  Gang(std::int64_t ranks, Clock::time_point until)
      : seats(static_cast<std::size_t>(ranks)),
        come(static_cast<std::size_t>(ranks), false),
        deadline(until) {}

  bool complete() const { return arrived == seats.size(); }

  std::vector<Seat> seats;
  std::vector<bool> come;
  std::size_t arrived = 0;
  std::vector<Promise> promises;
  Clock::time_point deadline;
  std::string failure;  // not empty: the time was over; those who come now are told at once
};

std::string describe(const std::vector<bool>& come, bool wanted) {
  std::string text;
  for (std::size_t rank = 0; rank < come.size(); ++rank) {
    if (come[rank] == wanted) {
      text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
    }
  }
  return text;
}

class Gangs {
 public:
  Future join(const CallKey& key, std::int64_t rank, std::int64_t ranks, const Seat& seat,
              Work work) {
    Promise promise;
    Future future(promise);
    std::string failure;
    std::shared_ptr<Gang> full;
    {
      const std::lock_guard lock(mutex_);
      std::list<std::shared_ptr<Gang>>& gangs = open_[key];
      // A rank that is already in the first gang is one turn of a loop ahead.
      const auto index = static_cast<std::size_t>(rank);
      auto place = std::find_if(gangs.begin(), gangs.end(),
                                [&](const auto& gang) { return !gang->come[index]; });
      if (place == gangs.end()) {
        const auto wait = std::chrono::duration_cast<Clock::duration>(time_limit());
        place = gangs.insert(place, std::make_shared<Gang>(ranks, Clock::now() + wait));
        watch();
      }
      Gang& gang = **place;
      gang.come[index] = true;
      gang.seats[index] = seat;
      ++gang.arrived;
      failure = gang.failure;
      if (failure.empty()) {
        gang.promises.push_back(promise);
      }
      if (gang.complete()) {
        if (failure.empty()) {
          full = *place;
        }
        gangs.erase(place);
        if (gangs.empty()) {
          open_.erase(key);
        }
      }
    }
    if (!failure.empty()) {
      promise.SetError(Error(XLA_FFI_Error_Code_DEADLINE_EXCEEDED, failure));
    }
    if (full) {
      run_soon([full, work = std::move(work)] {
        std::string trouble;
        try {
          work(full->seats);
        } catch (const std::exception& error) {  // a bug, or no memory left even to report that
          trouble = error.what();
        }
        // The rest of a device's program may run inside of this call, and wait for the others.
        for (Promise& waiting : full->promises) {
          run_soon([promise = waiting, trouble]() mutable {
            if (trouble.empty()) {
              promise.SetAvailable();
            } else {
              promise.SetError(Error(XLA_FFI_Error_Code_INTERNAL, "shardsolve: " + trouble));
            }
          });
        }
      });
    }
    return future;
  }

 private:
  /// With the lock held: there is a deadline to watch.
  void watch() {
    if (!watching_) {
      watching_ = true;
      std::thread([this] { expire(); }).detach();
    }
    changed_.notify_one();
  }

  [[noreturn]] void expire() {
    std::unique_lock lock(mutex_);
    for (;;) {
      const Clock::time_point now = Clock::now();
      auto next = Clock::time_point::max();
      std::vector<std::pair<Promise, std::string>> failed;
      for (auto& [key, gangs] : open_) {
        for (const auto& gang : gangs) {
          if (!gang->failure.empty()) {
            continue;
          }
          if (gang->deadline > now) {
            next = std::min(next, gang->deadline);
            continue;
          }
          gang->failure = fmt::format(
              "shardsolve: not all devices came to a solve in time. Ranks that came: {}; ranks "
              "that did not: {}. Every device of the mesh has to run the same program; see "
              "shardsolve.set_timeout for the limit.",
              describe(gang->come, true), describe(gang->come, false));
          for (const Promise& promise : std::exchange(gang->promises, {})) {
            failed.emplace_back(promise, gang->failure);
          }
        }
      }
      if (!failed.empty()) {
        lock.unlock();
        for (const auto& [promise, failure] : failed) {
          run_soon([late = promise, failure]() mutable {
            late.SetError(Error(XLA_FFI_Error_Code_DEADLINE_EXCEEDED, failure));
          });
        }
        lock.lock();
      } else if (next == Clock::time_point::max()) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, next);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool watching_ = false;
  std::map<CallKey, std::list<std::shared_ptr<Gang>>> open_;
};

}  // namespace

xla::ffi::Future join(const CallKey& key, std::int64_t rank, std::int64_t ranks, const Seat& seat,
                      Work work) {
  // Never destroyed: its threads outlive the end of main.
  static auto& gangs = *new Gangs;
  return gangs.join(key, rank, ranks, seat, std::move(work));
}

void set_time_limit(std::chrono::duration<double> limit) { limit_seconds = limit.count(); }

std::chrono::duration<double> time_limit() {
  return std::chrono::duration<double>(limit_seconds.load());
}

}  // namespace shardsolve::jax
