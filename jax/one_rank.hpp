/// Small systems: one rank does the work of all devices.
#pragma once

#include "jax/calls.hpp"
#include "jax/records.hpp"
#include "jax/seat.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::jax {

/// Does the call with the memory of the seats: if `before` is not ok, writes that this is how it
/// ended.
using TypedWork = void (*)(const Job& job, const std::vector<Seat>& seats, const Verdict& before);

/// How one buffer of a seat is laid out, and whether the call writes it.
struct Part {
  enum Kind { unused, rows, columns, small };
  Kind kind = unused;
  std::int64_t length = 0;  // bytes of a row, of an element of a column, or of all
  bool read = false;
  bool written = false;
  bool verdict = false;  // begins with one
};
using Parts = std::vector<Part>;

/// The call as one rank does it for all devices, with copies of their rows; where these are in
/// several processes rank 0 does it, and each has its own rows in the end. Throws only before
/// anything has been written.
void on_one_rank(const Job& job, const std::vector<Seat>& seats, const Parts& parts,
                 TypedWork work);

}  // namespace shardsolve::jax
