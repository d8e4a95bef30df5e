/// What an entry of a table of tile sizes is for.
#pragma once

#include <shardsolve/tile_table.hpp>

#include <tuple>

namespace shardsolve::core {

/// Different for all entries of a table, and ordered as its file is.
inline auto tile_key(const TileEntry& entry) {
  return std::tie(entry.routine, entry.device, entry.dtype, entry.ranks, entry.n);
}

}  // namespace shardsolve::core
