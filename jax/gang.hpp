/// Where the devices of one call meet.
#pragma once

#include "jax/seat.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace shardsolve::jax {

/// Names one call among all that may be under way: which call site of which executable, which run
/// of it, and which group of devices where a mesh has axes that the matrix is not cut along. In a
/// loop one key comes again and again; each device then takes part in one gang after the other.
struct CallKey {
  std::int64_t site = 0;
  std::int64_t run = 0;
  std::int64_t group = 0;

  friend auto operator<=>(const CallKey&, const CallKey&) = default;
};

/// Does the work once all seats are taken; `seats` are in rank order. Throws only where nothing can
/// be reported through the seats.
using Work = std::function<void(const std::vector<Seat>& seats)>;

/// Why a call has no results at all.
struct Trouble {
  bool late = false;  ///< a rank has not come within the time limit
  std::string text;
};
/// Called once for each rank: with null when the work has been done, else with the reason why not.
/// Runs on a thread of its own, except where join() or its `at_once` says otherwise.
using Done = std::function<void(const Trouble* trouble)>;

/// Takes the seat of `rank` among `ranks` and returns at once. When the last rank has come, its
/// `work` (that of every rank does the same) runs on a thread of its own; then each `done` is
/// called. Where the system has no thread to spare, `done` is called with that reason, perhaps in
/// here. `at_once`, for work that is shorter than to wake a thread: the last rank's join() does the
/// work, and calls the last rank's `done`, before it returns.
void join(const CallKey& key, std::int64_t rank, std::int64_t ranks, const Seat& seat, Work work,
          Done done, bool at_once = false);

/// How long a gang waits for its last rank, and a solve for a silent one. 300 s unless set, a
/// year at most.
void set_time_limit(std::chrono::duration<double> limit);
std::chrono::duration<double> time_limit();

}  // namespace shardsolve::jax
