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
/// Told that the work has been done (null) or why not: on a thread of its own, unless that is said
/// otherwise.
using Done = std::function<void(const Trouble* trouble)>;

/// Takes the seat of `rank` among `ranks` and returns at once. The work of the rank that comes last
/// is done, which is the same for all, on a thread of its own; then every rank is told. `at_once`:
/// work that takes less time than to wake a thread is done before this returns, and the last rank
/// is told here.
void join(const CallKey& key, std::int64_t rank, std::int64_t ranks, const Seat& seat, Work work,
          Done done, bool at_once = false);

/// How long a gang waits for its last rank, and a solve for a silent one. 300 s unless set, a
/// year at most.
void set_time_limit(std::chrono::duration<double> limit);
std::chrono::duration<double> time_limit();

}  // namespace shardsolve::jax
