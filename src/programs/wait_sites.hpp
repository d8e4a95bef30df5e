/// Where rank programs of all families wait for an event. Each wait is needed: leaving any one out
/// is a data race that the tests find (scripts/prove_waits.py leaves out each in turn).
#pragma once

#include "runtime/queue.hpp"

#include <array>

namespace shardsolve::programs::sites {

using runtime::WaitSite;

// host, every algorithm with steps
inline constexpr WaitSite step_flags{1, "host reads the flags of a finished step"};

inline constexpr std::array all{step_flags};

}  // namespace shardsolve::programs::sites
