/// Where eigensolvers wait for an event. Each wait is needed: leaving any one out is a data race
/// that the tests find (scripts/prove_waits.py leaves out each in turn).
#pragma once

#include "runtime/queue.hpp"

#include <array>

namespace shardsolve::dense::eigh::sites {

using runtime::WaitSite;

// divide and conquer
inline constexpr WaitSite leaves_solved{140, "host reads eigenvalues of leaves when computed"};
inline constexpr WaitSite leaf_ready{141, "leaf of several ranks is sent when computed"};
inline constexpr WaitSite leaf_arrived{142, "host reads a leaf of several ranks when here"};
inline constexpr WaitSite part_ready{143, "row and eigenvalues of a part are sent when copied"};
inline constexpr WaitSite part_arrived{144, "host reads row and eigenvalues of a part when here"};
inline constexpr WaitSite rows_copied{145, "host reads rows of its own parts when copied"};
inline constexpr WaitSite roots_ready{146, "roots are sent when computed"};
inline constexpr WaitSite roots_arrived{147, "host reads roots of all ranks when here"};
inline constexpr WaitSite roots_found{148, "host reads roots of its own merge when computed"};

// bisection
inline constexpr WaitSite bisected{150, "eigenvalues found by bisection are sent when computed"};

inline constexpr std::array all{leaves_solved, leaf_ready,  leaf_arrived, part_ready,
                                part_arrived,  rows_copied, roots_ready,  roots_arrived,
                                roots_found,   bisected};

}  // namespace shardsolve::dense::eigh::sites
