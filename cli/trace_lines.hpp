/// The summary of a trace for people.
#pragma once

#include <shardsolve/trace_summary.hpp>

#include <string>

namespace shardsolve::cli {

/// A line for each of: work, waits and whom they were for, bytes, steps. What there was nothing of
/// is left out. Of many ranks and links those that matter most; all of them are in the JSON.
std::string trace_lines(const TraceSummary& summary);

}  // namespace shardsolve::cli
