#include "jax/gang.hpp"

#include "core/threads.hpp"
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
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

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
  std::optional<Trouble> failure;  // the gang has failed: a rank that comes now is told at once
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

/// XLA's CPU backend runs a program on one thread a device, and begins 32 before it waits: while it
/// waits on one of these threads, a device of the first program may have none.
std::string threads_needed(const Gang& gang) {
  const auto come = std::find(gang.come.begin(), gang.come.end(), true) - gang.come.begin();
  if (gang.seats[static_cast<std::size_t>(come)].gpu) {
    return "";
  }
  return fmt::format(
      ", and on CPUs XLA needs a thread for each device: if more than 32 programs were under way, "
      "set NPROC={} in the environment before JAX starts",
      2 * gang.seats.size());
}

class Gangs {
 public:
  void join(const CallKey& key, std::int64_t rank, std::int64_t ranks, const Seat& seat, Work work,
            Done done, bool at_once) {
    std::optional<Trouble> failure;
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
        try {
          watch();
        } catch (const std::system_error& none) {
          (*place)->failure = no_thread(none);
        }
      }
      Gang& gang = **place;
      gang.come[index] = true;
      gang.seats[index] = seat;
      ++gang.arrived;
      failure = gang.failure;
      if (!failure) {
        gang.waiting.push_back(done);
      }
      if (gang.complete()) {
        if (!failure) {
          full = *place;
        }
        gangs.erase(place);
        if (gangs.empty()) {
          open_.erase(key);
        }
      }
    }
    if (failure) {
      tell({done}, failure);
    }
    if (full && at_once) {
      const std::optional<Trouble> trouble = attempt(*full, work);
      full->waiting.pop_back();  // this rank
      tell(full->waiting, trouble);
      done(trouble ? &*trouble : nullptr);
    } else if (full) {
      begin(full, std::move(work));
    }
  }

 private:
  static Trouble no_thread(const std::system_error& thrown) {
    return {false, core::no_thread_error("a solve from JAX", thrown).what()};
  }

  static std::optional<Trouble> attempt(const Gang& full, const Work& work) {
    try {
      work(full.seats);
    } catch (const std::exception& error) {
      return Trouble{false, error.what()};
    }
    return std::nullopt;
  }

  /// Does the work of a gang that is complete.
  static void begin(const std::shared_ptr<Gang>& full, Work work) {
    try {
      run_soon([full, work = std::move(work)] { tell(full->waiting, attempt(*full, work)); });
    } catch (const std::system_error& none) {
      tell(full->waiting, no_thread(none));
    }
  }

  /// Calls each `done` on a thread of its own: inside of it the rest of a device's program may run,
  /// and wait for the other devices. Where the system has no thread for one, its program fails
  /// here, and so waits for nobody.
  static void tell(const std::vector<Done>& waiting, const std::optional<Trouble>& trouble) {
    for (const Done& done : waiting) {
      try {
        run_soon([done, trouble] { done(trouble ? &*trouble : nullptr); });
      } catch (const std::system_error& none) {
        const Trouble instead = trouble.value_or(no_thread(none));
        done(&instead);
      }
    }
  }

  /// With the lock held: there is a deadline to watch.
  void watch() {
    if (!watching_) {
      std::thread([this] { expire(); }).detach();
      watching_ = true;
    }
    changed_.notify_one();
  }

  [[noreturn]] void expire() {
    std::unique_lock lock(mutex_);
    for (;;) {
      auto next = Clock::time_point::max();
      const std::vector<std::shared_ptr<Gang>> late = take_late(next);
      if (!late.empty()) {
        lock.unlock();  // who is told may join the next gang
        for (const auto& gang : late) {
          tell(std::exchange(gang->waiting, {}), gang->failure);
        }
        lock.lock();
      } else if (next == Clock::time_point::max()) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, next);
      }
    }
  }

  /// The gangs whose time is over; they have failed from now on. Sets `next` to the deadline of the
  /// gang that is due next, and leaves it alone if there is none.
  std::vector<std::shared_ptr<Gang>> take_late(Clock::time_point& next) {
    const Clock::time_point now = Clock::now();
    std::vector<std::shared_ptr<Gang>> late;
    for (auto& [key, gangs] : open_) {
      for (const auto& gang : gangs) {
        if (gang->failure) {
          continue;
        }
        if (gang->deadline > now) {
          next = std::min(next, gang->deadline);
          continue;
        }
        gang->failure = Trouble{
            true,
            fmt::format("not all devices came to a solve in time. Ranks that came: {}; ranks "
                        "that did not: {}. Every device of the mesh has to run the same program{}. "
                        "See shardsolve.set_timeout for the limit.",
                        describe(gang->come, true), describe(gang->come, false),
                        threads_needed(*gang))};
        late.push_back(gang);
      }
    }
    return late;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool watching_ = false;
  std::map<CallKey, std::list<std::shared_ptr<Gang>>> open_;
};

}  // namespace

void join(const CallKey& key, std::int64_t rank, std::int64_t ranks, const Seat& seat, Work work,
          Done done, bool at_once) {
  // Never destroyed: its threads outlive the end of main.
  static auto& gangs = *new Gangs;
  gangs.join(key, rank, ranks, seat, std::move(work), std::move(done), at_once);
}

void set_time_limit(std::chrono::duration<double> limit) {
  // A time point holds 292 years, and infinity is no number of nanoseconds.
  const std::chrono::duration<double> longest = std::chrono::years(1);
  limit_seconds = std::min(limit, longest).count();
}

std::chrono::duration<double> time_limit() {
  return std::chrono::duration<double>(limit_seconds.load());
}

}  // namespace shardsolve::jax
