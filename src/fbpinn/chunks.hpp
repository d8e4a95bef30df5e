/// How many points work is done for at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace shardsolve::fbpinn {

/// Of a call of the user's functions: what it reads and writes is to stay in a core's second cache,
/// and a call from Python costs as much as some 200 points.
struct ChunkRow {
  std::int64_t max_numbers;  ///< of a point: coordinates, jets, residuals and their derivatives
  std::int64_t points;
};
inline constexpr std::array<ChunkRow, 3> chunk_table{{{16, 2048}, {64, 1024}, {1 << 20, 512}}};

/// `forced`: 0, or what the user wants.
inline std::int64_t points_of_call(std::int64_t forced, std::int64_t numbers) {
  if (forced > 0) {
    return forced;
  }
  const auto row = std::find_if(chunk_table.begin(), chunk_table.end() - 1,
                                [&](const ChunkRow& one) { return numbers <= one.max_numbers; });
  return row->points;
}

/// Of a call on a GPU: so many that the call itself costs little, and few sizes are compiled.
inline std::int64_t points_of_device_call(std::int64_t forced) {
  constexpr std::int64_t points = std::int64_t{1} << 17U;
  return forced > 0 ? forced : points;
}

}  // namespace shardsolve::fbpinn
