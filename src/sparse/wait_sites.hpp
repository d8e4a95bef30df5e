/// Where products with sparse matrices wait for an event. Each wait is needed: leaving any one out
/// is a data race that the tests find (scripts/prove_waits.py leaves out each in turn).
#pragma once

#include "runtime/queue.hpp"

#include <array>

namespace shardsolve::sparse::sites {

using runtime::WaitSite;

inline constexpr WaitSite vector_made{240, "product: entries are packed when x is made"};
inline constexpr WaitSite halo_arrived{241, "product: boundary rows begin when the halo is here"};

inline constexpr std::array all{vector_made, halo_arrived};

}  // namespace shardsolve::sparse::sites
