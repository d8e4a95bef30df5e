/// Which boxes' columns which device makes and keeps.
#pragma once

#include "fbpinn/block_system.hpp"
#include "sparse/elimination_tree.hpp"
#include "sparse/front_placement.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::fbpinn {

/// Each box has one rank that multiplies with its columns: that which does its front, and those of
/// joint fronts in turn. A rank that needs the columns of another one's box for the Gram matrix
/// makes them, too: these are boxes in the fronts above its subtrees.
struct DeviceBoxes {
  std::vector<std::vector<std::int32_t>> owned;  ///< of each rank, ascending
  std::vector<std::vector<std::int32_t>> held;   ///< of each rank: its own, then others

  std::int64_t ranks() const { return static_cast<std::int64_t>(owned.size()); }
  /// Slots of the boxes that a rank has.
  std::int64_t slots(const RowLists& lists, std::int64_t rank) const;
};

DeviceBoxes place_boxes(const sparse::EliminationTree& tree,
                        const sparse::FrontPlacement& placement, std::int64_t ranks);

}  // namespace shardsolve::fbpinn
