/// The summary of a trace as JSON: in the trace's own file, and in what the command prints.
#pragma once

#include <shardsolve/trace_summary.hpp>

#include <nlohmann/json.hpp>

namespace shardsolve::runtime {

/// Times in seconds, as in TraceSummary; null for steps and straggler where there are none.
nlohmann::ordered_json to_json(const TraceSummary& summary);

}  // namespace shardsolve::runtime
