/// Small systems: one rank does the work of all devices.
#pragma once

#include "jax/calls.hpp"
#include "jax/seat.hpp"

#include <vector>

namespace shardsolve::jax {

/// The call as one rank does it for all devices, with copies of their rows; where these are in
/// several processes rank 0 does it, and each has its own rows in the end. Throws only before
/// anything has been written.
void on_one_rank(const Job& job, const std::vector<Seat>& seats, void (*work)(Task&));

}  // namespace shardsolve::jax
