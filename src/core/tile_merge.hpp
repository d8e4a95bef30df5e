/// How what was measured becomes part of a table.
#pragma once

#include <shardsolve/tile_table.hpp>

#include <vector>

namespace shardsolve::core {

/// Whether both are for matrices of one dtype on as many devices of one kind.
bool same_devices(const TileEntry& a, const TileEntry& b);

/// What `shardsolve tune` has found for one size.
struct TuneResult {
  TileEntry entry;    ///< its range as divide_sizes() sets it
  bool kept = false;  ///< whether its tile is faster than the library's choice
};

/// Sets the range of each result: from measured.n / sqrt(2) to measured.n sqrt(2), and where
/// another size was measured on the same devices, now or for an `old` entry, to the geometric mean
/// of both.
void divide_sizes(std::vector<TuneResult>& results, const std::vector<TileEntry>& old);

/// `old` with the results: new ranges take from old ones what they overlap; sizes that were
/// measured again, and lost to the library's choice, go.
std::vector<TileEntry> merge(std::vector<TileEntry> old, const std::vector<TuneResult>& results);

}  // namespace shardsolve::core
