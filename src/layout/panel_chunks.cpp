#include "layout/panel_chunks.hpp"

#include <algorithm>

namespace shardsolve::layout {
namespace {

std::int64_t whole_tiles(const SlabLayout& layout, std::int64_t chunk) {
  return (std::max<std::int64_t>(chunk, 1) + layout.tile() - 1) / layout.tile() * layout.tile();
}

/// Chunks of the widest segment.
std::int64_t rounds(const SlabLayout& layout, std::int64_t chunk) {
  const std::int64_t length = whole_tiles(layout, chunk);
  return (layout.max_width() + length - 1) / length;
}

}  // namespace

std::vector<RowChunk> panel_chunks(const SlabLayout& layout, Step step, std::int64_t chunk) {
  const Step next = step + 1;
  std::vector<RowChunk> chunks;
  if (next.value() >= layout.steps()) {
    return chunks;
  }
  const std::int64_t length = whole_tiles(layout, chunk);
  const std::vector<RowRun> runs = layout.rows_from(next);
  const std::int64_t next_owner = layout.owner(next);
  const GlobalRange next_rows = layout.rows(next);
  const std::int64_t left = layout.size() - layout.eliminated(next);
  const bool head = layout.ranks() > 1 || left <= length;
  if (head) {
    chunks.push_back({next_rows, runs[static_cast<std::size_t>(next_owner)].packed});
  }
  const std::int64_t start = layout.owner(std::min(next + 1, Step(layout.steps() - 1)));
  for (std::int64_t round = 0; round < rounds(layout, chunk); ++round) {
    for (std::int64_t turn = 0; turn < layout.ranks(); ++turn) {
      const RowRun& run = runs[static_cast<std::size_t>((start + turn) % layout.ranks())];
      const GlobalIndex segment = layout.segment(run.rank).begin;
      const GlobalIndex first = head && run.rank == next_owner ? next_rows.end : run.rows.begin;
      const GlobalRange rows{std::max(segment + round * length, first),
                             std::min(segment + (round + 1) * length, run.rows.end)};
      if (rows.begin < rows.end) {
        chunks.push_back({rows, run.packed + (rows.begin - run.rows.begin)});
      }
    }
  }
  return chunks;
}

std::vector<RowChunk> segment_chunks(const SlabLayout& layout, Step step, std::int64_t chunk) {
  const std::int64_t length = whole_tiles(layout, chunk);
  const std::vector<RowRun> runs = layout.rows_from(step);
  std::vector<RowChunk> chunks;
  for (std::int64_t round = 0; round < rounds(layout, chunk); ++round) {
    for (const RowRun& run : runs) {
      const GlobalIndex segment = layout.segment(run.rank).begin;
      const GlobalIndex begin =
          std::min(std::max(segment + round * length, run.rows.begin), run.rows.end);
      const GlobalIndex end =
          std::max(std::min(segment + (round + 1) * length, run.rows.end), begin);
      chunks.push_back({{begin, end}, run.packed + (begin - run.rows.begin)});
    }
  }
  return chunks;
}

std::int64_t max_panel_chunks(const SlabLayout& layout, std::int64_t chunk) {
  return 1 + layout.ranks() * rounds(layout, chunk);
}

}  // namespace shardsolve::layout
