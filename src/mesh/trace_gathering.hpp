/// The traces of several processes on one of them, by its clock.
#pragma once

#include "comm/clocks.hpp"
#include "comm/process_group.hpp"
#include "runtime/pulse.hpp"

#include <shardsolve/trace.hpp>

#include <vector>

namespace shardsolve::mesh {

/// All processes call these together, in a call of its own that does nothing else; they throw as
/// ProcessGroup::exchange.

/// On rank 0: the clock of every rank, by rank. On the others nothing.
std::vector<comm::ClockReading> read_clocks(comm::ProcessGroup& processes, runtime::Pulse& pulse);

/// What rank 0 knows of all ranks then; of the others each what it has given.
struct GatheredTrace {
  std::vector<Trace::Lane> lanes;  ///< several of one queue are parts of one
  std::vector<TraceClock> clocks;
};

/// `own`: what this process has recorded in a call. `before` comes from read_clocks() before that
/// call. The clocks are read again.
GatheredTrace gather_trace(comm::ProcessGroup& processes, runtime::Pulse& pulse,
                           const std::vector<comm::ClockReading>& before,
                           std::vector<Trace::Lane> own);

}  // namespace shardsolve::mesh
