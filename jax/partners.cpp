#include "jax/partners.hpp"

#include "jax/gang.hpp"
#include "jax/processes.hpp"
#include "jax/workers.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace shardsolve::jax {
namespace {

using Clock = std::chrono::steady_clock;
using comm::tcp::Address;

/// Of the process of each rank.
using Addresses = std::vector<Address>;

/// What is enqueued in front of a call is done in less, as a rule.
constexpr std::chrono::milliseconds patience(250);

std::atomic<bool> left{false};

class Partners {
 public:
  void remember(int device, const Invitations& all) {
    Addresses addresses;
    for (const Invitation& one : all) {
      addresses.push_back(one.address);
    }
    const std::lock_guard lock(mutex_);
    std::vector<Addresses>& groups = groups_[{device, std::ssize(all)}];
    if (std::find(groups.begin(), groups.end(), addresses) == groups.end()) {
      groups.push_back(std::move(addresses));
    }
  }
  /// Empty if there are none, or several groups of which nobody knows which one it is.
  Addresses of(int device, std::int64_t ranks) const {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find({device, ranks});
    return found != groups_.end() && found->second.size() == 1 ? found->second.front()
                                                               : Addresses{};
  }

 private:
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::pair<int, std::int64_t>, std::vector<Addresses>> groups_;
};

/// Never destroyed: threads of XLA may outlive the end of main.
Partners& partners() {
  static auto& only = *new Partners;
  return only;
}

/// Asks processes whether they are there, on a thread of its own, until it goes.
class Watch {
 public:
  explicit Watch(Addresses of) : state_(std::make_shared<State>()) {
    run_soon([state = state_, addresses = std::move(of)] { ask(*state, addresses); });
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { state_->over = true; }

  /// Throws Error(communication) if one of them is not.
  void look() const {
    const std::lock_guard lock(state_->mutex);
    if (!state_->trouble.empty()) {
      left = true;
      throw Error(ErrorKind::communication,
                  fmt::format("{}; this process waited for it before a call, in a collective of "
                              "XLA that does not end: no more can be done on this GPU, so start "
                              "the program anew",
                              state_->trouble));
    }
  }

 private:
  struct State {
    std::atomic<bool> over{false};
    std::mutex mutex;     // guards what follows
    std::string trouble;  // with the first that is gone
  };

  static void ask(State& state, const Addresses& addresses) {
    while (!state.over) {
      for (std::size_t rank = 0; rank < addresses.size() && !state.over; ++rank) {
        std::string trouble = trouble_with(static_cast<std::int64_t>(rank), addresses[rank]);
        if (!trouble.empty()) {
          const std::lock_guard lock(state.mutex);
          state.trouble = std::move(trouble);
          return;
        }
      }
      std::this_thread::sleep_for(patience);
    }
  }

  std::shared_ptr<State> state_;
};

}  // namespace

void remember_partners(int device, const Invitations& all) {
  if (!is_missing(all.front()) && !all_here(all)) {
    partners().remember(device, all);
  }
}

void wait_for(const mesh::CudaStream& stream, std::int64_t ranks) {
  Addresses others = ranks > 1 ? partners().of(stream.device, ranks) : Addresses{};
  if (others.empty()) {
    stream.synchronize();
    return;
  }
  // A wait that can be left. It looks often: the call begins when it ends.
  const Clock::time_point begin = Clock::now();
  std::unique_ptr<Watch> watch;
  while (!stream.is_done()) {
    const auto waited = Clock::now() - begin;
    if (waited < std::chrono::milliseconds(1)) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (watch) {
      watch->look();
    } else if (waited > patience) {
      watch = std::make_unique<Watch>(std::move(others));
    }
  }
}

bool has_left_a_stream() { return left; }

}  // namespace shardsolve::jax
