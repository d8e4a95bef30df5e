/// The tile sizes that ship with the library: used where no table of `shardsolve tune`
/// has another.
#pragma once

#include <algorithm>
#include <cstdint>

namespace shardsolve::core {

/// Blocks of equal width, a multiple of 32 columns, for a slab of `width` columns: at least `least`
/// of them, and none wider than `widest` (which is a multiple of 32) or narrower than 64.
constexpr std::int64_t even_tile(std::int64_t width, std::int64_t widest, std::int64_t least) {
  constexpr std::int64_t step = 32;
  constexpr std::int64_t narrowest = 64;
  const std::int64_t blocks = std::max(least, (width + widest - 1) / widest);
  const std::int64_t even = (width + blocks - 1) / blocks;
  return std::max((even + step - 1) / step * step, narrowest);
}

/// CPU devices: equal blocks, three a rank or more, so that the ranks share the work evenly. Wider
/// ones make updates quicker up to 384 columns, the depth at which OpenBLAS cuts products on x86-64
/// with AVX-512. Measured in docs/design/decisions.md.
constexpr std::int64_t cpu_tile(std::int64_t n, std::int64_t ranks) {
  return even_tile(n / std::max<std::int64_t>(ranks, 1), 384, 3);
}

/// GPUs: a wide tile keeps products near their best rate and the host's work small, a narrow one
/// shortens the chain of tiles. Measured on H200s: docs/performance.md.
constexpr std::int64_t gpu_tile(std::int64_t n, std::int64_t ranks) {
  constexpr std::int64_t large = 8192;
  constexpr std::int64_t least_tiles = 4;  // of each rank
  constexpr std::int64_t step = 64;
  const std::int64_t width = (n + ranks - 1) / ranks;
  const std::int64_t tile = n >= large && width >= least_tiles * 1024 ? 1024 : 512;
  return std::max(std::min(tile, (width + step - 1) / step * step), step);
}

/// Of an LU factorisation: the panel is a chain of pivots, whatever its width, and what is not
/// products in a step is in proportion to the width. Measured on an H100, of one GPU on an H200:
/// docs/design/lu.md.
constexpr std::int64_t gpu_lu_tile(std::int64_t n, std::int64_t ranks) {
  constexpr std::int64_t step = 64;
  const std::int64_t width = (n + ranks - 1) / ranks;
  const std::int64_t tile = n >= (ranks == 1 ? 12288 : 4096) ? 512 : 256;
  return std::max(std::min(tile, (width + step - 1) / step * step), step);
}

}  // namespace shardsolve::core
