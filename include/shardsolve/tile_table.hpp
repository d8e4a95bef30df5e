/// Tile sizes that were measured on the user's devices.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve {

/// What an entry of a TileTable comes from: factorisations by `shardsolve tune`.
struct TileMeasurement {
  std::int64_t n = 0;             ///< rows of the matrix that was factored
  double seconds = 0.0;           ///< least of several runs
  std::int64_t shipped_tile = 0;  ///< what the library takes without a table
  double shipped_seconds = 0.0;   ///< likewise
  double noise = 0.0;             ///< by which share of the least the runs differed
  std::string date;               ///< "2026-11-22"
  std::string version;            ///< of shardsolve
};

/// The tile for matrices of some sizes on one kind of devices.
struct TileEntry {
  std::string device;  ///< Mesh::device_kind()
  Dtype dtype = Dtype::float64;
  std::int64_t ranks = 0;   ///< devices that share a matrix
  std::int64_t from_n = 0;  ///< the fewest rows that it is for
  std::int64_t to_n = 0;    ///< the most
  std::int64_t tile = 0;
  TileMeasurement measured;
};

/// Tile sizes that `shardsolve tune` has found to be faster than the library's own choice, which
/// holds for everything that no entry is for. A value: it changes only by assignment.
///
/// Results depend on the tile in their last bits. So a table is used only by a mesh that was given
/// it (Mesh::use_tile_table); the command line tool and the JAX package give theirs the one that
/// find() finds.
class SHARDSOLVE_EXPORT TileTable {
 public:
  /// No entries.
  TileTable() = default;
  /// Throws Error(invalid_argument) if an entry makes no sense, or if two are for the same matrix.
  explicit TileTable(std::vector<TileEntry> entries);

  /// Reads a table that `shardsolve tune` has written. Throws Error(io) if there is no such file or
  /// it cannot be read, Error(invalid_argument) if it is no table or one of a later version.
  static TileTable load(const std::string& path);
  /// The table of this user: the file that the environment variable SHARDSOLVE_TILE_TABLE names
  /// ("none": no table), else $XDG_CONFIG_HOME/shardsolve/tiles.json ($HOME/.config if that is not
  /// set) if it is there, else no entries. Throws as load().
  static TileTable find();

  /// The entry for such a matrix; null if there is none.
  const TileEntry* entry_for(const std::string& device, Dtype dtype, std::int64_t ranks,
                             std::int64_t n) const;
  const std::vector<TileEntry>& entries() const { return entries_; }
  /// The file that it was read from; empty if it was not.
  const std::string& path() const { return path_; }

 private:
  std::vector<TileEntry> entries_;
  std::string path_;
};

}  // namespace shardsolve
