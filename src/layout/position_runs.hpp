/// Runs of rows that begin or end inside a step.
#pragma once

#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::layout {

/// The rows at or after `first` in elimination order, as one run a rank (possibly empty), packed
/// rank by rank: SlabLayout::rows_from, for any position.
std::vector<RowRun> rows_from(const SlabLayout& layout, Position first);

/// Rows that follow each other in a panel and in the matrix.
struct PanelRun {
  GlobalRange rows;
  std::int64_t place = 0;   ///< of the first one in the panel
  std::int64_t packed = 0;  ///< of the first one where rows_from() has packed it

  friend bool operator==(const PanelRun&, const PanelRun&) = default;
};

/// The rows of rows_from(layout, first) with the first `leading` of them in order of position,
/// those that a panel is eliminated with; the others follow rank by rank. Empty runs are left out.
std::vector<PanelRun> panel_order(const SlabLayout& layout, Position first, std::int64_t leading);

}  // namespace shardsolve::layout
