/// Substitutions with many fronts. Of most each has a block of threads: 32 columns at a time, which
/// one warp solves for and all threads take off the rows below. Large ones, of which there are few,
/// have a kernel for every 64 columns: each of its blocks solves for them, all alike, and takes
/// them off 64 rows, or going back columns, of its own. So nobody waits for another block.
#include "runtime/cuda/front_device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 512;
constexpr int warps = threads / 32;
constexpr int square = 32;

constexpr int tile = 64;
constexpr int tile_threads = 256;
constexpr int tile_warps = tile_threads / 32;

struct SolveMemory {
  double l[square][square + 1];  ///< l[j][i] = L(i, j)
  double x[square];
};

__device__ int thread() { return static_cast<int>(threadIdx.x); }

/// The square of L at `column`, ones on the diagonal beyond its size.
__device__ void load_square(SolveMemory& memory, const DeviceFront& front, int column) {
  const std::int64_t height = std::int64_t{front.own} + front.outer;
  const int width = min(square, front.own - column);
  const double* const l = front.panel + column + column * height;
  for (int n = thread(); n < square * square; n += threads) {
    const int i = n % square;
    const int j = n / square;
    memory.l[j][i] = i < width && j < width && i >= j ? l[i + j * height] : (i == j ? 1.0 : 0.0);
  }
}

/// A front's numbers on the way up: of x, and what its children leave, child after child. By a
/// block of threads.
__device__ void bring_up(const DeviceFront* all, const DeviceFront& front, const double* x) {
  double* const local = front.local;
  for (int i = thread(); i < front.own + front.outer; i += threads) {
    local[i] = i < front.own ? x[front.places[i]] : 0.0;
  }
  for (int c = 0; c < front.children_count; ++c) {
    __syncthreads();
    const DeviceFront child = all[front.children[c]];
    for (int i = thread(); i < child.outer; i += threads) {
      local[child.parent_columns[i]] += child.local[child.own + i];
    }
  }
}

__global__ void __launch_bounds__(threads)
    forward(const DeviceFront* all, std::int64_t first, double* x) {
  SolveMemory& memory = dynamic_shared<SolveMemory>();
  const DeviceFront front = all[first + blockIdx.x];
  if (front.is_wide != 0) {
    return;
  }
  const int height = front.own + front.outer;
  double* const local = front.local;
  bring_up(all, front, x);
  for (int column = 0; column < front.own; column += square) {
    const int width = min(square, front.own - column);
    __syncthreads();
    load_square(memory, front, column);
    __syncthreads();
    if (thread() < square) {
      const int i = thread();
      double mine = i < width ? local[column + i] : 0.0;
      for (int j = 0; j < square; ++j) {
        const double known = from_lane(mine, j) / memory.l[j][j];
        mine = i == j ? known : mine - (i > j ? memory.l[j][i] * known : 0.0);
      }
      memory.x[i] = mine;
      if (i < width) {
        local[column + i] = mine;
        x[front.places[column + i]] = mine;
      }
    }
    __syncthreads();
    for (int row = column + width + thread(); row < height; row += threads) {
      const double* const l = front.panel + row + std::int64_t{column} * height;
      double sum = 0.0;
      if (width == square) {
#pragma unroll
        for (int j = 0; j < square; ++j) {
          sum += l[std::int64_t{j} * height] * memory.x[j];
        }
      } else {
        for (int j = 0; j < width; ++j) {
          sum += l[std::int64_t{j} * height] * memory.x[j];
        }
      }
      local[row] -= sum;
    }
  }
}

__global__ void __launch_bounds__(threads)
    back(const DeviceFront* all, std::int64_t first, double* x) {
  SolveMemory& memory = dynamic_shared<SolveMemory>();
  const DeviceFront front = all[first + blockIdx.x];
  if (front.is_wide != 0) {
    return;
  }
  const int height = front.own + front.outer;
  double* const local = front.local;
  for (int i = thread(); i < height; i += threads) {
    local[i] = x[front.places[i]];
  }
  const int last = front.own > 0 ? (front.own - 1) / square * square : -square;
  for (int column = last; column >= 0; column -= square) {
    const int width = min(square, front.own - column);
    __syncthreads();
    load_square(memory, front, column);
    // Two columns of each warp at a time.
    constexpr int of_warp = square / warps;
    double sums[of_warp] = {};
    const int begin = thread() / 32 * of_warp;
    for (int row = column + width + thread() % 32; row < height; row += 32) {
      const double value = local[row];
#pragma unroll
      for (int j = 0; j < of_warp; ++j) {
        if (begin + j < width) {
          sums[j] += front.panel[row + std::int64_t{column + begin + j} * height] * value;
        }
      }
    }
#pragma unroll
    for (int j = 0; j < of_warp; ++j) {
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) {
        sums[j] += from_partner(sums[j], distance);
      }
      if (thread() % 32 == 0) {
        memory.x[begin + j] = begin + j < width ? local[column + begin + j] - sums[j] : 0.0;
      }
    }
    __syncthreads();
    if (thread() < square) {
      const int i = thread();
      double mine = memory.x[i];
      for (int j = square - 1; j >= 0; --j) {
        const double known = from_lane(mine, j) / memory.l[j][j];
        mine = i == j ? known : mine - (i < j ? memory.l[i][j] * known : 0.0);
      }
      if (i < width) {
        local[column + i] = mine;
        x[front.places[column + i]] = mine;
      }
    }
  }
}

/// A square of L on the diagonal and the numbers that are solved for.
struct TileMemory {
  double l[tile][tile + 1];  ///< l[j][i] = L(i, j); ones on the diagonal beyond its size
  double x[tile];
  double parts[tile_threads / tile][tile];  ///< of sums
};

/// What a block of a kernel for 64 columns has: the front, and which of its pieces.
struct TilePiece {
  DeviceFront front;
  int piece;
  int column;  ///< the first of the 64
  int width;   ///< how many there are; 0: none, and nothing to do

  __device__ TilePiece(const DeviceFront* all, std::int64_t first, std::int64_t pieces, int at)
      : front(all[first + blockIdx.x / pieces]),
        piece(static_cast<int>(blockIdx.x % pieces)),
        column(at),
        width(front.is_wide != 0 ? max(0, min(tile, front.own - at)) : 0) {}
  __device__ std::int64_t height() const { return std::int64_t{front.own} + front.outer; }
};

/// The square, and the numbers of the columns. To be seen after a barrier.
__device__ void load_tile(TileMemory& memory, const TilePiece& of) {
  const std::int64_t height = of.height();
  const double* const l = of.front.panel + of.column + of.column * height;
  for (int n = thread(); n < tile * tile; n += tile_threads) {
    const int i = n % tile;
    const int j = n / tile;
    memory.l[j][i] =
        i < of.width && j < of.width && i >= j ? l[i + j * height] : (i == j ? 1.0 : 0.0);
  }
  if (thread() < tile) {
    memory.x[thread()] = thread() < of.width ? of.front.local[of.column + thread()] : 0.0;
  }
}

/// x := L^-1 x by the first warp, whose lanes have two rows each.
__device__ void solve_tile(TileMemory& memory) {
  const int i = thread();
  double low = memory.x[i];
  double high = memory.x[i + 32];
  const double of_low = 1.0 / memory.l[i][i];
  const double of_high = 1.0 / memory.l[i + 32][i + 32];
  for (int j = 0; j < 32; ++j) {
    const double known = from_lane(low * of_low, j);
    low = i == j ? known : low - (i > j ? memory.l[j][i] * known : 0.0);
    high -= memory.l[j][i + 32] * known;
  }
  for (int j = 0; j < 32; ++j) {
    const double known = from_lane(high * of_high, j);
    high = i == j ? known : high - (i > j ? memory.l[j + 32][i + 32] * known : 0.0);
  }
  memory.x[i] = low;
  memory.x[i + 32] = high;
}

/// x := L^-T x, likewise.
__device__ void solve_transposed_tile(TileMemory& memory) {
  const int i = thread();
  double low = memory.x[i];
  double high = memory.x[i + 32];
  const double of_low = 1.0 / memory.l[i][i];
  const double of_high = 1.0 / memory.l[i + 32][i + 32];
  for (int j = 31; j >= 0; --j) {
    const double known = from_lane(high * of_high, j);
    high = i == j ? known : high - (i < j ? memory.l[i + 32][j + 32] * known : 0.0);
    low -= memory.l[i][j + 32] * known;
  }
  for (int j = 31; j >= 0; --j) {
    const double known = from_lane(low * of_low, j);
    low = i == j ? known : low - (i < j ? memory.l[i][j] * known : 0.0);
  }
  memory.x[i] = low;
  memory.x[i + 32] = high;
}

/// The columns' numbers of x, by the block of the first piece. Other blocks read them in `local`.
__device__ void store_solved(const TileMemory& memory, const TilePiece& of, double* x) {
  if (of.piece == 0 && thread() < of.width) {
    x[of.front.places[of.column + thread()]] = memory.x[thread()];
  }
}

__global__ void __launch_bounds__(threads)
    begin_forward(const DeviceFront* all, std::int64_t first, const double* x) {
  const DeviceFront front = all[first + blockIdx.x];
  if (front.is_wide != 0) {
    bring_up(all, front, x);
  }
}

/// 64 columns, taken off the 64 rows below that are the piece's: four threads a row.
__global__ void __launch_bounds__(tile_threads)
    forward_tile(const DeviceFront* all, std::int64_t first, std::int64_t pieces, int column,
                 double* x) {
  begin_after_last();
  TileMemory& memory = dynamic_shared<TileMemory>();
  const TilePiece mine(all, first, pieces, column);
  const std::int64_t height = mine.height();
  const std::int64_t begin = column + mine.width + std::int64_t{mine.piece} * tile;
  if (mine.width == 0 || (mine.piece > 0 && begin >= height)) {
    return;
  }
  load_tile(memory, mine);
  constexpr int share = tile / (tile_threads / tile);  // columns of a thread
  const std::int64_t row = begin + thread() % tile;
  const int part = thread() / tile;
  double l[share];
#pragma unroll
  for (int j = 0; j < share; ++j) {
    const int at = part * share + j;
    l[j] = row < height && at < mine.width ? mine.front.panel[row + (column + at) * height] : 0.0;
  }
  __syncthreads();
  if (thread() < 32) {
    solve_tile(memory);
  }
  __syncthreads();
  store_solved(memory, mine, x);
  double sum = 0.0;
#pragma unroll
  for (int j = 0; j < share; ++j) {
    sum += l[j] * memory.x[part * share + j];
  }
  memory.parts[part][thread() % tile] = sum;
  __syncthreads();
  if (part == 0 && row < height) {
    double total = 0.0;
    for (const auto& of_part : memory.parts) {
      total += of_part[thread()];
    }
    mine.front.local[row] -= total;
  }
}

/// The own numbers less the products with the outer ones, which are final: a column for each warp.
__global__ void __launch_bounds__(tile_threads)
    begin_back(const DeviceFront* all, std::int64_t first, std::int64_t pieces, const double* x) {
  const DeviceFront front = all[first + blockIdx.x / pieces];
  const int column = static_cast<int>(blockIdx.x % pieces) * tile_warps + thread() / 32;
  if (front.is_wide == 0 || column >= front.own) {
    return;
  }
  const std::int64_t height = std::int64_t{front.own} + front.outer;
  const double* const l = front.panel + front.own + column * height;
  const std::int32_t* const places = front.places + front.own;
  double sum = 0.0;
  for (int i = thread() % 32; i < front.outer; i += 32) {
    sum += l[i] * x[places[i]];
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += from_partner(sum, distance);
  }
  if (thread() % 32 == 0) {
    front.local[column] = x[front.places[column]] - sum;
  }
}

/// 64 columns, taken off the 64 before them that are the piece's: eight of each warp.
__global__ void __launch_bounds__(tile_threads)
    back_tile(const DeviceFront* all, std::int64_t first, std::int64_t pieces, int column,
              double* x) {
  begin_after_last();
  TileMemory& memory = dynamic_shared<TileMemory>();
  const TilePiece mine(all, first, pieces, column);
  if (mine.width == 0 || (mine.piece > 0 && mine.piece * tile >= column)) {
    return;
  }
  load_tile(memory, mine);
  const bool has_columns = mine.piece * tile < column;
  constexpr int share = tile / tile_warps;
  const int lane = thread() % 32;
  const int target = mine.piece * tile + thread() / 32 * share;
  double l[2][share];
#pragma unroll
  for (int j = 0; j < share; ++j) {
    const double* const from = mine.front.panel + column + (target + j) * mine.height();
    l[0][j] = has_columns && lane < mine.width ? from[lane] : 0.0;
    l[1][j] = has_columns && lane + 32 < mine.width ? from[lane + 32] : 0.0;
  }
  __syncthreads();
  if (thread() < 32) {
    solve_transposed_tile(memory);
  }
  __syncthreads();
  store_solved(memory, mine, x);
  const double low = memory.x[lane];
  const double high = memory.x[lane + 32];
#pragma unroll
  for (int j = 0; j < share; j += 4) {
    const double sum =
        sum_four({l[0][j] * low + l[1][j] * high, l[0][j + 1] * low + l[1][j + 1] * high,
                  l[0][j + 2] * low + l[1][j + 2] * high, l[0][j + 3] * low + l[1][j + 3] * high});
    if (has_columns && lane % 8 == 0) {
      mine.front.local[target + j + lane / 8] -= sum;
    }
  }
}

/// The kernels for 64 columns, one after the other; `pieces` of a front at most in each.
template <class Pieces>
void launch_tiles(cudaStream_t stream,
                  void (*kernel)(const DeviceFront*, std::int64_t, std::int64_t, int, double*),
                  const FrontBatch& batch, double* x, bool from_last, const Pieces& pieces) {
  const Block block{dim3(tile_threads), sizeof(TileMemory)};
  const std::int64_t tiles = divide_up(batch.wide_own, tile);
  for (std::int64_t step = 0; step < tiles; ++step) {
    const std::int64_t column = (from_last ? tiles - 1 - step : step) * tile;
    const std::int64_t of_front = std::max<std::int64_t>(pieces(column), 1);
    const auto at = static_cast<int>(column);
    if (step == 0) {  // after a kernel that lets none begin early
      launch(stream, kernel, batch.count * of_front, block, batch.all, batch.first, of_front, at,
             x);
    } else {
      launch_early(stream, kernel, batch.count * of_front, block, batch.all, batch.first, of_front,
                   at, x);
    }
  }
}

}  // namespace

void FrontDeviceKernels::solve_forward(cudaStream_t stream, const FrontBatch& batch, double* x) {
  launch(stream, &forward, batch.count, {dim3(threads), sizeof(SolveMemory)}, batch.all,
         batch.first, x);
  if (batch.wide_own == 0) {
    return;
  }
  launch(stream, &begin_forward, batch.count, {dim3(threads)}, batch.all, batch.first, x);
  launch_tiles(stream, &forward_tile, batch, x, false,
               [&](std::int64_t column) { return divide_up(batch.wide_columns - column, tile); });
}

void FrontDeviceKernels::solve_back(cudaStream_t stream, const FrontBatch& batch, double* x) {
  launch(stream, &back, batch.count, {dim3(threads), sizeof(SolveMemory)}, batch.all, batch.first,
         x);
  if (batch.wide_own == 0) {
    return;
  }
  const std::int64_t pieces = divide_up(batch.wide_own, tile_warps);
  launch(stream, &begin_back, batch.count * pieces, {dim3(tile_threads)}, batch.all, batch.first,
         pieces, x);
  launch_tiles(stream, &back_tile, batch, x, true,
               [&](std::int64_t column) { return divide_up(column, tile); });
}

}  // namespace shardsolve::runtime::cuda
