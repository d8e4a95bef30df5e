/// Where eigensolvers wait for an event. Each wait is needed: leaving any one out is a data race
/// that the tests find (scripts/prove_waits.py leaves out each in turn).
#pragma once

#include "runtime/queue.hpp"

#include <array>

namespace shardsolve::dense::eigh::sites {

using runtime::WaitSite;

// full_to_band
inline constexpr WaitSite panel_updated{100, "band: panel has its updates from the step before"};
inline constexpr WaitSite panel_made{101, "band: reflectors of a panel are sent when made"};
inline constexpr WaitSite panel_arrived{102, "band: reflectors of a panel are used when here"};
inline constexpr WaitSite products_made{103, "band: products with reflectors are sent when made"};
inline constexpr WaitSite products_gathered{104,
                                            "band: products with reflectors are used when here"};

// mirror
inline constexpr WaitSite mirror_packed{105, "band: what is below is sent when packed"};
inline constexpr WaitSite mirror_arrived{106, "band: what is above is stored when here"};

// band_to_tridiagonal
inline constexpr WaitSite chase_slot_free{110, "chase: group goes to a free slot"};
inline constexpr WaitSite chase_passed{111, "chase: group follows the one before"};
inline constexpr WaitSite group_chased{112, "chase: group is sent when chased"};
inline constexpr WaitSite tridiagonal_made{113, "chase: tridiagonal is sent when made"};

// back_transform
inline constexpr WaitSite sweeps_used{120, "back: group of sweeps arrives in a slot that was used"};
inline constexpr WaitSite sweeps_arrived{121, "back: group of sweeps is used when here"};
inline constexpr WaitSite panel_merged{122, "back: panel arrives in a slot that was used"};
inline constexpr WaitSite panel_to_merge_arrived{123, "back: panel is used when here"};

// solve_columns
inline constexpr WaitSite factor_used{130, "columns of a factor arrive in a slot that was used"};
inline constexpr WaitSite factor_arrived{131, "columns of a factor are used when here"};

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

inline constexpr std::array all{
    panel_updated,    panel_made,     panel_arrived,   products_made, products_gathered,
    mirror_packed,    mirror_arrived, chase_slot_free, chase_passed,  group_chased,
    tridiagonal_made, sweeps_used,    sweeps_arrived,  panel_merged,  panel_to_merge_arrived,
    factor_used,      factor_arrived, leaves_solved,   leaf_ready,    leaf_arrived,
    part_ready,       part_arrived,   rows_copied,     roots_ready,   roots_arrived,
    roots_found,      bisected};

}  // namespace shardsolve::dense::eigh::sites
