/// Tables of tile sizes as files: JSON that people can read.
#pragma once

#include "io/strict_json.hpp"

#include <shardsolve/tile_table.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::io {

/// Where the table of this user is looked for.
struct TilePath {
  std::string path;       ///< empty for no table
  bool required = false;  ///< whether somebody has named it: then it has to be there
  std::string named_by;   ///< "--tile-table" or "SHARDSOLVE_TILE_TABLE"; empty for the usual place
};
/// `option`: what the command line says, "" if nothing; otherwise as TileTable::find().
TilePath tile_table_path(const std::string& option);
/// The table that lies there; no entries for an empty path, or where nobody has named a file that
/// is not there. Throws as TileTable::load().
TileTable read_tile_table(const TilePath& place);

/// What the file of a table holds.
struct TileFile {
  std::vector<TileEntry> entries;
  /// Entries of routines that this library does not know, as they are: a later one wrote them.
  std::vector<Json> others;

  /// Adds an entry, in place of one for the same routine, devices, dtype and size.
  void put(TileEntry entry);
};
/// Of the file that read_tile_table() reads. Throws as TileTable::load().
TileFile read_tile_file(const TilePath& place);

/// The contents of a table's file, and back. Numbers are kept to the last bit. `path` is for the
/// message of Error(invalid_argument), thrown where the text is no table, or not one of this
/// version to the last key: what is not understood must not be lost when it is written again.
std::string to_json(const TileFile& file);
TileFile parse_tile_file(std::string_view text, const std::string& path);

}  // namespace shardsolve::io
