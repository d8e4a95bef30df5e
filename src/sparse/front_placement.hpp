/// Which device does which fronts.
#pragma once

#include "sparse/elimination_tree.hpp"
#include "sparse/joint_front.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::sparse {

/// Subtrees are one rank's each; of the fronts above them rank 0 does the small ones, and all ranks
/// together the joint ones, which have nothing but joint ones above them.
struct FrontPlacement {
  enum class Kind : std::uint8_t { subtree, top, joint };
  std::vector<Kind> kind;          ///< of each node
  std::vector<std::int64_t> rank;  ///< of each node that is not joint
  std::vector<std::int32_t> joint;  ///< nodes, ascending
};

/// Cuts the subtrees off where that makes the time least, as flops have it.
FrontPlacement place_fronts(const EliminationTree& tree, std::int64_t ranks,
                            const JointFronts& joint_fronts);

/// Some nodes of a tree as a tree of their own, whose roots may leave something.
struct Forest {
  EliminationTree tree;
  std::vector<std::int32_t> node;   ///< of the whole tree, of each here
  std::vector<std::int32_t> place;  ///< here, of each node of the whole tree; -1: not here
};

/// A rank's subtrees.
Forest subtrees_of(const EliminationTree& tree, const FrontPlacement& placement,
                   std::int64_t rank);
/// The small fronts above; subtrees below them are given.
Forest top_of(const EliminationTree& tree, const FrontPlacement& placement);

}  // namespace shardsolve::sparse
