/// What Python has to know of Krylov solves.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>

namespace shardsolve::jax {

/// Methods with their stages, statuses, and where the words of records are.
nlohmann::json describe_krylov();

/// Lengths of what a solve keeps, for n rows of which a device has `rows`: int32 words of the room,
/// those before the log, elements of the parts, then begin and length of three reductions.
void krylov_lengths(std::int64_t method, std::int64_t n, std::int64_t restart,
                    std::int64_t max_iterations, bool log, std::int64_t rows, std::int64_t ranks,
                    std::int64_t* lengths);

/// The sentence that belongs to a report, given as its words and, behind them, krylov::cycle_of()
/// its solve.
std::string krylov_message(const std::int32_t* report);

}  // namespace shardsolve::jax
