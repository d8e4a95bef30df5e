/// Tile sizes that were measured on the user's devices.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/routine.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve {

/// What an entry of a TileTable comes from: runs by `shardsolve tune`.
struct TileMeasurement {
  double seconds = 0.0;           ///< with the entry's tile; least of several runs
  std::int64_t shipped_tile = 0;  ///< what the library takes without a table
  double shipped_seconds = 0.0;   ///< likewise
  double noise = 0.0;             ///< by which share of the least the runs differed
  std::string date;               ///< "2026-11-22"
  std::string version;            ///< of shardsolve
};

/// What was found for one routine and one size of matrices on one kind of devices.
struct TileEntry {
  Routine routine = Routine::cholesky;
  std::string device;  ///< Mesh::device_kind()
  Dtype dtype = Dtype::float64;
  std::int64_t ranks = 0;  ///< devices that share a matrix
  std::int64_t n = 0;      ///< rows of the matrix that was measured
  std::int64_t tile = 0;   ///< the fastest besides the library's own choice
  /// Whether it is faster than that choice by more than the noise, and its answers are right.
  /// Otherwise the library's choice holds for this size.
  bool kept = false;
  TileMeasurement measured;
};

/// What `shardsolve tune` has found: tile sizes that are faster than the library's own choice,
/// which holds for everything that no entry is for. A value: it changes only by assignment.
///
/// Results depend on the tile in their last bits. So a table is used only by a mesh that was given
/// it (Mesh::use_tile_table); the command line tool and the JAX package give theirs the one that
/// find() finds.
class SHARDSOLVE_EXPORT TileTable {
 public:
  /// No entries.
  TileTable() = default;
  /// Throws Error(invalid_argument) if an entry makes no sense, or if two are for the same routine,
  /// devices, dtype and size.
  explicit TileTable(std::vector<TileEntry> entries);

  /// Reads a table that `shardsolve tune` has written. Throws Error(io) if there is no such file or
  /// it cannot be read, Error(invalid_argument) if it is no table, Error(unsupported) if it is one
  /// of another version. Entries of routines that this library does not know are left out.
  static TileTable load(const std::string& path);
  /// The table of this user: the file that the environment variable SHARDSOLVE_TILE_TABLE names
  /// ("none": no table), else $XDG_CONFIG_HOME/shardsolve/tiles.json ($HOME/.config if that is not
  /// set) if it is there, else no entries. Throws as load().
  static TileTable find();

  /// The entry whose tile such a matrix takes; null if the library's own choice holds. It is the
  /// one for this routine, dtype and devices whose size is nearest to n by their ratio (of two the
  /// smaller one), if that ratio is sqrt(2) at most and if its tile was kept.
  const TileEntry* entry_for(const std::string& device, Dtype dtype, std::int64_t ranks,
                             std::int64_t n, Routine routine = Routine::cholesky) const;
  const std::vector<TileEntry>& entries() const { return entries_; }
  /// The file that it was read from; empty if it was not.
  const std::string& path() const { return path_; }

 private:
  std::vector<TileEntry> entries_;
  std::string path_;
};

}  // namespace shardsolve
