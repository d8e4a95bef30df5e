/// Where Krylov solves wait for an event. Each wait is needed: leaving any one out is a data race
/// that the tests find (scripts/prove_waits.py leaves out each in turn).
#pragma once

#include "runtime/queue.hpp"

#include <array>

namespace shardsolve::krylov::sites {

using runtime::WaitSite;

inline constexpr WaitSite sums_ready{270, "parts of sums are sent when computed"};
inline constexpr WaitSite sums_arrived{271, "sums are finished when all parts are here"};
inline constexpr WaitSite flag_arrived{272, "host reads whether an earlier round was the last"};
inline constexpr WaitSite vector_ready{273, "callable: x is sent when copied"};
inline constexpr WaitSite vector_arrived{274, "callable: x is used when here"};

inline constexpr std::array all{sums_ready, sums_arrived, flag_arrived, vector_ready,
                                vector_arrived};

}  // namespace shardsolve::krylov::sites
