/// The pieces in which a panel is computed and sent.
#pragma once

#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::layout {

/// Rows of a panel that are computed and sent together.
struct RowChunk {
  GlobalRange rows;         ///< inside one segment
  std::int64_t packed = 0;  ///< place of the first among all rows of the panel

  friend bool operator==(const RowChunk&, const RowChunk&) = default;
};

/// Cuts the rows that remain after `step` (SlabLayout::rows_from(step + 1)) into chunks, in the
/// order in which they are needed:
///   1. the rows of the next step: the next diagonal tile waits for them;
///   2. the other rows, in lengths of `chunk` rows rounded up to whole tiles: the first length of
///      each segment, then the second of each, and so on. The first segment is that of the step
///      after next, as the next panel begins with its rows.
/// A rank that is alone, with more than one length of rows left, has no chunk 1: its updates take
/// longer than the wait.
///
/// Segments are cut at the same places for every step: a chunk of one step lies inside one chunk of
/// the step before.
std::vector<RowChunk> panel_chunks(const SlabLayout& layout, Step step, std::int64_t chunk);

/// Most chunks that any step has.
std::int64_t max_panel_chunks(const SlabLayout& layout, std::int64_t chunk);

/// Cuts the rows of SlabLayout::rows_from(step) at the same places. Every step has as many chunks:
/// chunk i holds those rows between the same two cuts that remain, perhaps none.
std::vector<RowChunk> segment_chunks(const SlabLayout& layout, Step step, std::int64_t chunk);

}  // namespace shardsolve::layout
