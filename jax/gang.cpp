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
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace shardsolve::jax {
namespace {

using Clock = std::chrono::steady_clock;

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
  std::vector<Done> waiting;
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
  void join(const CallKey& key, std::int64_t rank, std::int64_t ranks, const Seat& seat, Work work,
            Done done) {
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
        gang.waiting.push_back(done);
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
      tell(done, Trouble{true, failure});
    }
    if (full) {
      run_soon([full, work = std::move(work)] {
        std::optional<Trouble> trouble;
        try {
          work(full->seats);
        } catch (const std::exception& error) {
          trouble = Trouble{false, error.what()};
        }
        for (const Done& waiting : full->waiting) {
          tell(waiting, trouble);
        }
      });
    }
  }

 private:
  /// Each on a thread of its own: the rest of a device's program may run inside of this, and wait
  /// for the others.
  static void tell(const Done& done, const std::optional<Trouble>& trouble) {
    run_soon([done, trouble] { done(trouble ? &*trouble : nullptr); });
  }

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
              "not all devices came to a solve in time. Ranks that came: {}; ranks "
              "that did not: {}. Every device of the mesh has to run the same program; see "
              "shardsolve.set_timeout for the limit.",
              describe(gang->come, true), describe(gang->come, false));
          for (const Done& waiting : std::exchange(gang->waiting, {})) {
            tell(waiting, Trouble{true, gang->failure});
          }
        }
      }
      if (next == Clock::time_point::max()) {
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

void join(const CallKey& key, std::int64_t rank, std::int64_t ranks, const Seat& seat, Work work,
          Done done) {
  // Never destroyed: its threads outlive the end of main.
  static auto& gangs = *new Gangs;
  gangs.join(key, rank, ranks, seat, std::move(work), std::move(done));
}

void set_time_limit(std::chrono::duration<double> limit) { limit_seconds = limit.count(); }

std::chrono::duration<double> time_limit() {
  return std::chrono::duration<double>(limit_seconds.load());
}

}  // namespace shardsolve::jax
