/// Every place where an algorithm waits for an event. Each is needed: leaving any one out is a data
/// race that the tests find (scripts/prove_waits.py leaves out each in turn).
#pragma once

#include "runtime/queue.hpp"

namespace shardsolve::dense::sites {

using runtime::WaitSite;

// host, every algorithm with steps
inline constexpr WaitSite step_flags{1, "host reads the flags of a finished step"};

// check_input
inline constexpr WaitSite input_looked_at{5, "products with the probe are sent when computed"};

// cholesky
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

// HermitianMultiply
inline constexpr WaitSite multiply_x_ready{30, "multiply: X is sent when copied"};
inline constexpr WaitSite multiply_x_arrived{31, "multiply: X is used when here"};
inline constexpr WaitSite multiply_sums_ready{32, "multiply: sums are sent when computed"};
inline constexpr WaitSite multiply_sums_arrived{33, "multiply: sums are added when here"};

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

}  // namespace shardsolve::dense::sites
