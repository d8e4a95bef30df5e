/// Where Cholesky's algorithms wait for an event. Each wait is needed: leaving any one out is a
/// data race that the tests find (scripts/prove_waits.py leaves out each in turn).
#pragma once

#include "runtime/queue.hpp"

#include <array>

namespace shardsolve::dense::cholesky::sites {

using runtime::WaitSite;

// factor
inline constexpr WaitSite panel_packed{10, "broadcast of a panel that was packed"};
inline constexpr WaitSite panel_used{11, "panel is given up when used"};
inline constexpr WaitSite next_column_arrived{12, "next column block uses a panel that arrived"};
inline constexpr WaitSite next_column_ready{13, "next column block has its earlier updates"};
inline constexpr WaitSite header_written{14, "header of a panel is sent when written"};
inline constexpr WaitSite trailing_arrived{15, "trailing update uses a panel that arrived"};
inline constexpr WaitSite rest_of_panel{16, "rest of a panel begins when its tile is factored"};

// triangular_solve
inline constexpr WaitSite forward_ahead{20, "forward: slot whose sums were sent, and bound"};
inline constexpr WaitSite forward_sums_used{21, "forward: sums arrive in a slot that was added"};
inline constexpr WaitSite forward_sums_ready{22, "forward: sums are sent when computed"};
inline constexpr WaitSite forward_sums_gathered{23, "forward: sums are added when here"};
inline constexpr WaitSite backward_solved{24, "backward: rows of X are sent when solved"};
inline constexpr WaitSite backward_used{25, "backward: rows of X are given up when used"};
inline constexpr WaitSite backward_slot_free{27, "backward: rows of X go to a free slot"};
inline constexpr WaitSite backward_arrived{26, "backward: rows of X are used when here"};

// inverse
inline constexpr WaitSite inverse_m_packed{40, "inverse: column of M is sent when packed"};
inline constexpr WaitSite inverse_m_used{41, "inverse: column of M is given up when used"};
inline constexpr WaitSite inverse_m_slot_free{42, "inverse: column of M goes to a free slot"};
inline constexpr WaitSite inverse_column_arrived{43, "inverse: next column uses one that arrived"};
inline constexpr WaitSite inverse_column_ready{44, "inverse: next column has its earlier updates"};
inline constexpr WaitSite inverse_m_arrived{45, "inverse: column of M is used when here"};
inline constexpr WaitSite inverse_prepared_arrived{46, "inverse: column is prepared when here"};
inline constexpr WaitSite inverse_prepared{47, "inverse: prepared column is used when there"};
inline constexpr WaitSite inverse_tiles{48, "inverse: inverses of tiles are used when there"};

// mirror
inline constexpr WaitSite mirror_packed{60, "mirror: blocks are sent when packed"};
inline constexpr WaitSite mirror_arrived{61, "mirror: blocks are used when here"};

// half_product
inline constexpr WaitSite half_sums_ready{50, "half: shares of F B are sent when computed"};
inline constexpr WaitSite half_sums_arrived{51, "half: shares of F B are added when here"};
inline constexpr WaitSite half_rows_ready{52, "half: rows of B are sent when copied"};
inline constexpr WaitSite half_rows_arrived{53, "half: rows of B are used when here"};

inline constexpr std::array all{panel_packed,           panel_used,
                                next_column_arrived,    next_column_ready,
                                header_written,         trailing_arrived,
                                rest_of_panel,          forward_ahead,
                                forward_sums_used,      forward_sums_ready,
                                forward_sums_gathered,  backward_solved,
                                backward_used,          backward_slot_free,
                                backward_arrived,       inverse_m_packed,
                                inverse_m_used,         inverse_m_slot_free,
                                inverse_column_arrived, inverse_column_ready,
                                inverse_m_arrived,      inverse_prepared_arrived,
                                inverse_prepared,       inverse_tiles,
                                mirror_packed,          mirror_arrived,
                                half_sums_ready,        half_sums_arrived,
                                half_rows_ready,        half_rows_arrived};

}  // namespace shardsolve::dense::cholesky::sites
