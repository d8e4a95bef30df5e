/// How the windows of a group of 64 sweeps of a band of bandwidth 64 are packed for the kernel that
/// slides over them, in float64.
///
/// A window is applied in four quarters of 16 sweeps, the latest sweeps first:
///
///   x^T  = z^T V           z^T (16 x 80) in 10 tiles, x^T (16 x 16) in 2
///   z^T -= x^T (V t)^T
///
/// on the tensor cores, where a result is the next product's left factor as it lies. Right factors
/// are packed in the order in which the lanes read them: V has rows j + 1 to j + 64 in column j,
/// V t those up to j + 64. The row before a quarter's first one goes with it, so that rows in twos
/// lie where a lane can read and write both at once.
#pragma once

#include <cstdint>

namespace shardsolve::runtime::cuda::sliding {

constexpr int lanes = 32;
constexpr int bandwidth = 64;
constexpr int quarter = 16;  // sweeps
constexpr int quarters = 4;
constexpr int group = quarters * quarter;

// Tiles have eight rows of z, right factors are 16 x 8.
constexpr int tile = 8;
constexpr int depth = 16;
constexpr int tiles_a_quarter = (bandwidth + quarter) / tile;
constexpr int sums_a_quarter = quarter / tile;
constexpr int numbers_a_factor = depth * tile;
static_assert(quarter == depth);

/// Right factors of a quarter: of V for tile c of x^T and row chunk r, of (V t)^T for each tile.
constexpr int chunks = tiles_a_quarter * tile / depth;
constexpr int factors = 10;
static_assert(factors == sums_a_quarter * chunks && factors == tiles_a_quarter);
__host__ __device__ constexpr int factor_of_v(int c, int r) { return c * chunks + r; }

/// Numbers in v and in vt of a quarter, and from window to window.
constexpr int numbers_a_quarter = factors * numbers_a_factor;
constexpr std::int64_t window = std::int64_t{group} * (bandwidth + group - 1);
static_assert(quarters * numbers_a_quarter <= window);

}  // namespace shardsolve::runtime::cuda::sliding
