/// Which tile a job takes, and who has chosen it.
#pragma once

#include <shardsolve/tile_table.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace shardsolve::cli {

struct TileChoice {
  std::int64_t tile = 0;
  bool asked_for = false;          ///< by --tile
  std::optional<TileEntry> entry;  ///< of the table that has it; nothing if the library chose
  std::string table;               ///< the file of that table
};

/// "256", or "256 (tuned on 2026-11-22, '/home/me/.config/shardsolve/tiles.json')".
std::string tile_text(const TileChoice& choice);
/// "option", "table" or "library".
std::string tile_origin(const TileChoice& choice);

}  // namespace shardsolve::cli
