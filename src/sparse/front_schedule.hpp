/// In which order a device does fronts, many at a time, and where it keeps what they leave.
#pragma once

#include "sparse/elimination_tree.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::sparse {

/// Fronts of one depth, none of which waits for another, are a level. What they leave is kept in
/// turn in two places, until the level above them is done. Where that takes too much memory, the
/// subtrees below some depth are done one after the other, and what their roots leave waits for
/// those above. Sums do not depend on it.
struct FrontSchedule {
  /// Consecutive fronts of the order.
  struct Range {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  struct Level {
    Range fronts;
    /// What is to be added first, range after range: children, in each range of different parents.
    std::vector<Range> children;
    std::int64_t rest_first = 0;  ///< numbers in front of what these fronts leave
    std::int64_t rest_count = 0;
    bool is_given = false;
  };

  std::vector<std::int32_t> order;  ///< nodes of the tree
  std::vector<Level> levels;
  std::int64_t rest_count = 0;  ///< numbers that are left at a time, with gaps

  /// Bytes of panels, of what is left, of vectors and of tables.
  double bytes(const EliminationTree& tree) const;
};

/// Serialises as few depths of the tree as bring bytes() to `max_bytes`; if none do, those that
/// make it least.
FrontSchedule schedule_fronts(const EliminationTree& tree, double max_bytes);

}  // namespace shardsolve::sparse
