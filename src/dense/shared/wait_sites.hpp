/// Where what dense families share waits for an event. Each wait is needed: leaving any one out is
/// a data race that the tests find (scripts/prove_waits.py leaves out each in turn).
#pragma once

#include "runtime/queue.hpp"

#include <array>

namespace shardsolve::dense::sites {

using runtime::WaitSite;

// check_finite, check_hermitian
inline constexpr WaitSite input_looked_at{5, "products with the probe are sent when computed"};

// HermitianMultiply
inline constexpr WaitSite multiply_x_ready{30, "multiply: X is sent when copied"};
inline constexpr WaitSite multiply_x_arrived{31, "multiply: X is used when here"};
inline constexpr WaitSite multiply_sums_ready{32, "multiply: sums are sent when computed"};
inline constexpr WaitSite multiply_sums_arrived{33, "multiply: sums are added when here"};

inline constexpr std::array all{input_looked_at, multiply_x_ready, multiply_x_arrived,
                                multiply_sums_ready, multiply_sums_arrived};

}  // namespace shardsolve::dense::sites
