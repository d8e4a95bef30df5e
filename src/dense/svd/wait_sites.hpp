/// Where algorithms for singular values wait for an event. Each wait is needed: leaving any one out
/// is a data race that the tests find (scripts/prove_waits.py leaves out each in turn).
#pragma once

#include "runtime/queue.hpp"

#include <array>

namespace shardsolve::dense::svd::sites {

using runtime::WaitSite;

// Relay
inline constexpr WaitSite columns_used{280, "svd: columns travel where those before are used"};
inline constexpr WaitSite columns_arrived{281, "svd: columns of all ranks are used when here"};

inline constexpr std::array all{columns_used, columns_arrived};

}  // namespace shardsolve::dense::svd::sites
