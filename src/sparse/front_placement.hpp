/// Which device or process does which fronts.
#pragma once

#include "sparse/elimination_tree.hpp"
#include "sparse/joint_front.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::sparse {

/// Subtrees are one rank's each; of the fronts above them one rank does each small one, and all
/// ranks together the joint ones, which have nothing but joint ones above them.
struct FrontPlacement {
  enum class Kind : std::uint8_t { subtree, top, joint };
  std::vector<Kind> kind;           ///< of each node
  std::vector<std::int64_t> rank;   ///< of each node that is not joint
  std::vector<std::int32_t> joint;  ///< nodes, ascending
};

/// For devices. Cuts the subtrees off where that makes the time least, as flops have it; the small
/// fronts above are rank 0's.
FrontPlacement place_fronts(const EliminationTree& tree, std::int64_t ranks,
                            const JointFronts& joint_fronts);

/// For processes, whose memory is to be little, too. Each rank has subtrees that follow one
/// another, so that few boxes are beside them; small fronts above them are done by ranks that have
/// one of their children. All fronts of a level may be done at a time.
FrontPlacement spread_fronts(const EliminationTree& tree, std::int64_t ranks,
                             const JointFronts& joint_fronts);
/// The small fronts above the subtrees, by level: none waits for another of its own or a later one.
std::vector<std::vector<std::int32_t>> levels_of_top(const EliminationTree& tree,
                                                     const FrontPlacement& placement);
/// Bytes of the fronts that a rank holds on a host at most, those that wait for their parents
/// included. 8 a number.
double bytes_of_fronts(const EliminationTree& tree, const FrontPlacement& placement,
                       std::int64_t rank, std::int64_t ranks, const JointFronts& joint_fronts);

/// Some nodes of a tree as a tree of their own, whose roots may leave something.
struct Forest {
  EliminationTree tree;
  std::vector<std::int32_t> node;   ///< of the whole tree, of each here
  std::vector<std::int32_t> place;  ///< here, of each node of the whole tree; -1: not here
};

/// A rank's subtrees.
Forest subtrees_of(const EliminationTree& tree, const FrontPlacement& placement, std::int64_t rank);
/// The small fronts above; subtrees below them are given.
Forest top_of(const EliminationTree& tree, const FrontPlacement& placement);

}  // namespace shardsolve::sparse
