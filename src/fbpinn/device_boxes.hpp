/// Which boxes' columns which device makes and keeps.
#pragma once

#include "fbpinn/block_system.hpp"
#include "sparse/elimination_tree.hpp"
#include "sparse/front_placement.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::fbpinn {

/// Each box has one owner, the rank that factors its front (those of joint fronts are dealt in
/// turn), which multiplies with its columns. For the Gram matrix ranks hold copies of the columns
/// of other boxes too: those in the fronts above their subtrees.
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
