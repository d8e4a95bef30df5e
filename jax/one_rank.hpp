/// Small systems: one rank does the work of all devices.
#pragma once

#include "jax/calls.hpp"
#include "jax/seat.hpp"

#include <vector>

namespace shardsolve::jax {

/// One rank does the call for all devices, on copies of their rows. Where the devices are in
/// several processes, rank 0 does it and returns to each process its own rows. Throws only before
/// anything has been written to a seat's buffers.
void on_one_rank(const Job& job, const std::vector<Seat>& seats, void (*work)(Task&));

}  // namespace shardsolve::jax
