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

/// Cuts the rows that remain after `step` (SlabLayout::rows_from(step + 1)). First come the rows of
/// the next step, which the next diagonal tile waits for (where one rank has more than one length
/// of rows left, its updates take longer than that wait, and they are no chunk of their own); then
/// the segments in lengths of about `chunk` rows (rounded up to whole tiles), in turn from that
/// with the rows of the step after next on, for which the first rows of the next panel wait.
/// Segments are cut at the same places for every step, so that a chunk of one step lies inside one
/// chunk of the step before.
std::vector<RowChunk> panel_chunks(const SlabLayout& layout, Step step, std::int64_t chunk);

/// Most chunks that any step has.
std::int64_t most_panel_chunks(const SlabLayout& layout, std::int64_t chunk);

/// Cuts the rows that remain before `step` (SlabLayout::rows_from(step)) in the same lengths. Chunk
/// i of every step lies between the same cuts, as far as its rows remain: it may be empty.
std::vector<RowChunk> segment_chunks(const SlabLayout& layout, Step step, std::int64_t chunk);

}  // namespace shardsolve::layout
