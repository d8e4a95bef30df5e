/// What tune has to say, as text or JSON.
#pragma once

#include "tuning.hpp"

#include <shardsolve/tile_table.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::cli::bench {

struct TuneReport {
  Routine routine = Routine::cholesky;
  std::string device;  ///< Mesh::device_kind()
  std::int64_t ranks = 0;
  std::string backend;  ///< "cpu" or "cuda"
  std::vector<Tuned> sizes;
  std::string path;
  bool written = false;
  std::size_t entries = 0;  ///< of the table now
};

/// The entry of a size that was measured.
TileEntry entry_of(const Tuned& tuned, const TuneReport& report, const std::string& date);

std::string text_of(const TuneReport& report);
std::string json_of(const TuneReport& report);

}  // namespace shardsolve::cli::bench
