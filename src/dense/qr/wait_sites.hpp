/// Where QR's algorithms wait for an event. Each wait is needed: leaving any one out is a data race
/// that the tests find (scripts/prove_waits.py leaves out each in turn).
#pragma once

#include "runtime/queue.hpp"

#include <array>

namespace shardsolve::dense::qr::sites {

using runtime::WaitSite;

// Sums
inline constexpr WaitSite shares_ready{180, "qr: shares of a sum are sent when computed"};
inline constexpr WaitSite shares_arrived{181, "qr: shares of a sum are added when here"};
inline constexpr WaitSite sums_ready{182, "qr: sums are collected when added"};
inline constexpr WaitSite sums_here{183, "qr: sums are used when collected"};

// from_first
inline constexpr WaitSite decided{184,
                                  "qr: what the first rank has found is sent when it is there"};

// reflect_slabs
inline constexpr WaitSite rows_ready{185, "qr: rows are sent when computed"};
inline constexpr WaitSite rows_here{186, "qr: rows of all ranks are used when here"};

// adjoint_rows
inline constexpr WaitSite columns_ready{187, "qr: columns are sent when packed"};
inline constexpr WaitSite columns_here{188, "qr: columns of all ranks are used when here"};

// WideSolve
inline constexpr WaitSite pieces_ready{189, "qr: what is collected is sent when computed"};
inline constexpr WaitSite x_ready{190, "qr: rows of x are sent when computed"};

// Householder
inline constexpr WaitSite panel_packed{191, "qr: panel is sent when packed"};
inline constexpr WaitSite panel_used{192, "qr: panel is given up when used"};
inline constexpr WaitSite next_column_arrived{193,
                                              "qr: next column block uses a panel that arrived"};
inline constexpr WaitSite next_column_ready{194, "qr: next column block has its earlier updates"};
inline constexpr WaitSite trailing_arrived{195, "qr: trailing update uses a panel that arrived"};
inline constexpr WaitSite reflectors_used{196, "qr: reflectors are given up when used"};
inline constexpr WaitSite reflectors_arrived{197, "qr: reflectors are used when here"};

inline constexpr std::array all{
    shares_ready,     shares_arrived,  sums_ready,        sums_here,           decided,
    rows_ready,       rows_here,       columns_ready,     columns_here,        pieces_ready,
    x_ready,          panel_packed,    panel_used,        next_column_arrived, next_column_ready,
    trailing_arrived, reflectors_used, reflectors_arrived};

}  // namespace shardsolve::dense::qr::sites
