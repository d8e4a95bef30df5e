/// Where LU's algorithms wait for an event. Each wait is needed: leaving any one out is a data race
/// that the tests find (scripts/prove_waits.py leaves out each in turn).
#pragma once

#include "runtime/queue.hpp"

#include <array>

namespace shardsolve::dense::lu::sites {

using runtime::WaitSite;

// factor
inline constexpr WaitSite panel_packed{160, "lu: panel is sent when packed"};
inline constexpr WaitSite panel_used{161, "lu: panel is given up when used"};
inline constexpr WaitSite next_column_arrived{162,
                                              "lu: next column block uses a panel that arrived"};
inline constexpr WaitSite next_column_ready{163, "lu: next column block has its earlier updates"};
inline constexpr WaitSite trailing_arrived{164, "lu: trailing update uses a panel that arrived"};

// triangular_solve
inline constexpr WaitSite sums_ahead{165, "lu: slot whose sums were sent, and bound"};
inline constexpr WaitSite sums_used{166, "lu: sums arrive in a slot that was added"};
inline constexpr WaitSite sums_ready{167, "lu: sums are sent when computed"};
inline constexpr WaitSite sums_gathered{168, "lu: sums are added when here"};
inline constexpr WaitSite rows_solved{169, "lu: solved rows are sent when solved"};
inline constexpr WaitSite rows_used{170, "lu: solved rows are given up when used"};
inline constexpr WaitSite rows_slot_free{171, "lu: solved rows go to a free slot"};
inline constexpr WaitSite rows_arrived{172, "lu: solved rows are used when here"};

// RowOrder
inline constexpr WaitSite order_packed{173, "lu: rows to be chosen from are sent when packed"};
inline constexpr WaitSite order_arrived{174, "lu: rows are chosen when here"};

// GeneralMultiply
inline constexpr WaitSite multiply_x_ready{175, "lu multiply: X is sent when copied"};
inline constexpr WaitSite multiply_x_arrived{176, "lu multiply: X is used when here"};
inline constexpr WaitSite multiply_sums_ready{177, "lu multiply: sums are sent when computed"};
inline constexpr WaitSite multiply_sums_arrived{178, "lu multiply: sums are added when here"};

// look_at
inline constexpr WaitSite row_sums_ready{179, "lu: sums of rows are sent when computed"};

// inverse
inline constexpr WaitSite inverse_slot_free{200, "lu inverse: panel goes to a free slot"};
inline constexpr WaitSite inverse_panel_packed{201, "lu inverse: panel is sent when packed"};
inline constexpr WaitSite inverse_panel_used{202, "lu inverse: panel is given up when used"};
inline constexpr WaitSite inverse_panel_arrived{203, "lu inverse: panel is used when here"};
inline constexpr WaitSite inverse_of_u_ready{204, "lu inverse: U^-1 is sent when it is there"};

// order_inverse
inline constexpr WaitSite inverse_columns_packed{205, "lu inverse: columns are sent when packed"};
inline constexpr WaitSite inverse_columns_arrived{206, "lu inverse: columns are stored when here"};

inline constexpr std::array all{panel_packed,
                                panel_used,
                                next_column_arrived,
                                next_column_ready,
                                trailing_arrived,
                                sums_ahead,
                                sums_used,
                                sums_ready,
                                sums_gathered,
                                rows_solved,
                                rows_used,
                                rows_slot_free,
                                rows_arrived,
                                order_packed,
                                order_arrived,
                                multiply_x_ready,
                                multiply_x_arrived,
                                multiply_sums_ready,
                                multiply_sums_arrived,
                                row_sums_ready,
                                inverse_slot_free,
                                inverse_panel_packed,
                                inverse_panel_used,
                                inverse_panel_arrived,
                                inverse_of_u_ready,
                                inverse_columns_packed,
                                inverse_columns_arrived};

}  // namespace shardsolve::dense::lu::sites
