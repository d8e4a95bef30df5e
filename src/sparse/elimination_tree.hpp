/// In which order blocks are eliminated, and what that costs.
#pragma once

#include "sparse/block_graph.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::sparse {

/// Blocks that are eliminated together, as one dense front: its columns are those of `blocks`, then
/// those of `border`, the later blocks that the elimination changes.
struct FrontNode {
  std::vector<std::int32_t> blocks;
  std::vector<std::int32_t> border;  ///< in the order of their elimination
  std::int32_t parent = -1;
  std::vector<std::int32_t> children;  ///< ascending
  std::int64_t own = 0;                ///< columns of `blocks`
  std::int64_t outer = 0;              ///< columns of `border`
  bool is_given = false;               ///< done elsewhere: what it leaves is brought here

  std::int64_t front() const { return own + outer; }
  /// Of the front's partial factorisation, multiplications and additions counted each.
  double flops() const;
};

struct EliminationTree {
  std::vector<FrontNode> nodes;        ///< children before parents, subtrees without gaps
  std::vector<std::int32_t> node_of;   ///< of each block
  std::vector<std::int32_t> position;  ///< of each block in the order of elimination
};

/// Splits the graph by separators, the halves likewise, and eliminates what is smallest first
/// (George, SIAM J. Numer. Anal. 10, 1973). A cut along an axis takes as separator the blocks on
/// one side that have neighbours on the other; among cuts the one with the smallest separator for
/// what it separates is taken. Fronts that are hardly more work as one are joined.
EliminationTree nested_dissection(const BlockGraph& graph);

/// The same order with other sizes of the blocks.
EliminationTree with_sizes(EliminationTree tree, const BlockGraph& graph);

/// What a factorisation takes. Bytes count 8 a number.
struct FactorCost {
  double flops = 0.0;
  double factor_bytes = 0.0;
  double peak_bytes = 0.0;         ///< factor, fronts that wait for their parents included
  std::int64_t largest_front = 0;  ///< columns
};
FactorCost cost_of(const EliminationTree& tree);
/// Of the matrix without its zeros' being used.
FactorCost dense_cost(const BlockGraph& graph);
/// Of a band, blocks in the order that has them nearest to each other: along the axis with the most
/// distinct coordinates first, or else by distance in the graph.
FactorCost band_cost(const BlockGraph& graph);

}  // namespace shardsolve::sparse
