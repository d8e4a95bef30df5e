/// Which boxes' columns which process makes and keeps.
#pragma once

#include "sparse/elimination_tree.hpp"
#include "sparse/front_placement.hpp"
#include "sparse/workers.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace shardsolve::fbpinn {

/// Each box has one process that makes its columns and multiplies with them. That one keeps them,
/// and so do those who need them for blocks of a Gram matrix.
struct ProcessBoxes {
  std::vector<std::int64_t> doer;                  ///< of each box
  std::vector<std::vector<std::int64_t>> keepers;  ///< of each box, ascending

  std::int64_t boxes() const { return static_cast<std::int64_t>(doer.size()); }
  bool keeps(std::int64_t process, std::int64_t box) const;
};

/// Boxes without fronts: in turn, and nobody needs another's.
ProcessBoxes boxes_in_turn(std::int64_t boxes, std::int64_t processes);

/// Keepers have the boxes of their fronts and of the borders of these, and all of the joint ones.
/// `work`: of a product with each box; the keepers share it. Blocks of the tree behind the boxes
/// are none.
ProcessBoxes boxes_of_fronts(const sparse::EliminationTree& tree,
                             const sparse::FrontPlacement& placement,
                             const std::vector<std::int64_t>& work, std::int64_t processes);
/// For fronts as BlockCholesky deals them to these workers. Those of GPUs' hosts are anywhere, and
/// all keep all.
ProcessBoxes boxes_of_fronts(const sparse::EliminationTree& tree,
                             const std::vector<std::int64_t>& work, const sparse::Workers& workers);

/// Brings what the doers of `made` have to the keepers of `wanted`, some megabytes of each at a
/// time. `bytes`: of each box. tell(delivery of a box, packet) writes and reads; forget(box) is
/// called where a box was made and is not kept.
void bring_boxes(const ProcessBoxes& made, const ProcessBoxes& wanted,
                 const std::vector<std::int64_t>& bytes, const sparse::Workers& workers,
                 const std::function<void(const sparse::Delivery&, sparse::Packet&)>& tell,
                 const std::function<void(std::int64_t box)>& forget);

}  // namespace shardsolve::fbpinn
