/// Partial Cholesky factorisations of many fronts: 64 columns of each at a time. A square on the
/// diagonal is factored by a block of threads in shared memory, rows below are solved for one a
/// thread, and products are tiles of 64 x 64 on the tensor cores. Fronts of a batch share each
/// launch, and blocks of those that are smaller than others have nothing to do.
#include "runtime/cuda/front_device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/tile_product.cuh"
#include "runtime/host_and_device.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int square = 64;
constexpr int square_threads = 256;
constexpr int row_threads = 128;
/// Columns that a thread solves for together.
constexpr int group = 8;
/// Columns of a child that a block adds to its parent.
constexpr int added_columns = 8;
constexpr int adding_threads = 128;

__device__ std::int64_t columns_of(const DeviceFront& front) {
  return std::int64_t{front.own} + front.outer;
}

__global__ void __launch_bounds__(adding_threads)
    add_rests(const DeviceFront* all, std::int64_t first, std::int64_t pieces) {
  const DeviceFront child = all[first + blockIdx.x / pieces];
  const std::int64_t begin = blockIdx.x % pieces * added_columns;
  if (begin >= child.outer || child.parent < 0) {
    return;
  }
  const DeviceFront parent = all[child.parent];
  const std::int64_t height = columns_of(parent);
  const std::int64_t end = min(begin + added_columns, std::int64_t{child.outer});
  for (std::int64_t column = begin; column < end; ++column) {
    const std::int64_t to = child.parent_columns[column];
    // Row 0 of the parent's front.
    double* const target = to < parent.own
                               ? parent.panel + to * height
                               : parent.rest + (to - parent.own) * parent.outer - parent.own;
    const double* const source = child.rest + column * child.outer;
    for (std::int64_t row = column + threadIdx.x; row < child.outer; row += adding_threads) {
      target[child.parent_columns[row]] += source[row];
    }
  }
}

__global__ void __launch_bounds__(square_threads)
    factor_squares(const DeviceFront* all, std::int64_t first, int column, std::int32_t* failed) {
  __shared__ double a[square][square + 1];
  const std::int64_t number = first + blockIdx.x;
  const DeviceFront front = all[number];
  if (column >= front.own || failed[number] != 0) {
    return;
  }
  const int width = min(square, front.own - column);
  const std::int64_t height = columns_of(front);
  double* const place = front.panel + column + column * height;
  const int row = static_cast<int>(threadIdx.x) % square;
  const int begin = static_cast<int>(threadIdx.x) / square;
  constexpr int apart = square_threads / square;
  for (int j = begin; j < width && row < width; j += apart) {
    a[j][row] = row >= j ? place[row + j * height] : 0.0;
  }
  __syncthreads();
  for (int j = 0; j < width; ++j) {
    const double pivot = a[j][j];
    if (!(pivot > 0.0)) {
      if (threadIdx.x == 0) {
        failed[number] = column + j + 1;
      }
      return;
    }
    const double root = sqrt(pivot);
    const double mine = row > j && row < width ? a[j][row] / root : 0.0;
    __syncthreads();
    if (begin == 0 && row < width) {
      a[j][row] = row == j ? root : mine;
    }
    __syncthreads();
    for (int k = j + 1 + begin; k < width && k <= row && row < width; k += apart) {
      a[k][row] -= mine * a[j][k];
    }
    __syncthreads();
  }
  for (int j = begin; j < width && row < width; j += apart) {
    if (row >= j) {
      place[row + j * height] = a[j][row];
    }
  }
}

struct BelowMemory {
  double l[square][square];       ///< l[k][j] = L(j, k), ones beyond its size
  double x[square][row_threads];  ///< of each thread
};

/// Rows below a square: x L^T = a, a row for each thread.
__global__ void __launch_bounds__(row_threads)
    solve_below(const DeviceFront* all, std::int64_t first, std::int64_t pieces, int column,
                const std::int32_t* failed) {
  BelowMemory& memory = dynamic_shared<BelowMemory>();
  const std::int64_t number = first + blockIdx.x / pieces;
  const DeviceFront front = all[number];
  const std::int64_t height = columns_of(front);
  const int thread = static_cast<int>(threadIdx.x);
  if (column >= front.own || failed[number] != 0) {
    return;
  }
  const int width = min(square, front.own - column);
  const std::int64_t begin = column + width + blockIdx.x % pieces * row_threads;
  if (begin >= height) {
    return;
  }
  const double* const l = front.panel + column + column * height;
  for (int i = thread; i < square * square; i += row_threads) {
    const int j = i % square;
    const int k = i / square;
    memory.l[k][j] = j < width && k < width && j >= k ? l[j + k * height] : (j == k ? 1.0 : 0.0);
  }
  const std::int64_t row = begin + thread;
  double* const a = front.panel + row + column * height;
  for (int j = 0; j < square; ++j) {
    memory.x[j][thread] = j < width && row < height ? a[j * height] : 0.0;
  }
  __syncthreads();
  for (int j = 0; j < width; j += group) {
    double x[group];
#pragma unroll
    for (int i = 0; i < group; ++i) {
      x[i] = memory.x[j + i][thread];
    }
    for (int k = 0; k < j; ++k) {
      const double known = memory.x[k][thread];
#pragma unroll
      for (int i = 0; i < group; ++i) {
        x[i] -= known * memory.l[k][j + i];
      }
    }
#pragma unroll
    for (int k = 0; k < group; ++k) {
      x[k] /= memory.l[j + k][j + k];
#pragma unroll
      for (int i = k + 1; i < group; ++i) {
        x[i] -= x[k] * memory.l[j + k][j + i];
      }
    }
#pragma unroll
    for (int i = 0; i < group; ++i) {
      memory.x[j + i][thread] = x[i];
    }
  }
  for (int j = 0; j < width && row < height; ++j) {
    a[j * height] = memory.x[j][thread];
  }
}

/// Of so many rows or columns.
SHARDSOLVE_HOST_DEVICE constexpr std::int64_t tiles_along(std::int64_t count) {
  return (count + TileProduct::side - 1) / TileProduct::side;
}
/// Tiles of a lower trapezoid of so many rows and columns of tiles, column after column.
SHARDSOLVE_HOST_DEVICE constexpr std::int64_t tiles_of(std::int64_t rows, std::int64_t columns) {
  return columns * rows - columns * (columns - 1) / 2;
}

/// c -= left right^T for the tile at row i, column j of c; both factors are rows of one matrix, of
/// `depth` columns.
struct Subtraction {
  const double* factor;  ///< its row 0 meets row and column 0 of c
  std::int64_t factor_stride;
  std::int64_t depth;
  double* c;
  std::int64_t c_stride;
  std::int64_t rows;  ///< of c
  std::int64_t columns;
};

/// What a thread loads of a chunk: numbers of one row or another, apart by two columns.
constexpr int loads = TileProduct::depth * TileProduct::side / TileProduct::threads;
struct Loaded {
  double left[loads];
  double right[loads];
};

__device__ void load(const Subtraction& work, std::int64_t i, std::int64_t j, std::int64_t k,
                     Loaded& loaded) {
  constexpr int side = TileProduct::side;
  const int row = static_cast<int>(threadIdx.x) % side;
  const int first = static_cast<int>(threadIdx.x) / side;
#pragma unroll
  for (int n = 0; n < loads; ++n) {
    const std::int64_t column = k + first + n * (TileProduct::threads / side);
    const double* const from = work.factor + column * work.factor_stride + row;
    const bool is_there = column < work.depth;
    loaded.left[n] = is_there && i + row < work.rows ? from[i] : 0.0;
    loaded.right[n] = is_there && j + row < work.columns ? from[j] : 0.0;
  }
}

__device__ void store(const Loaded& loaded, TileProduct::Chunk& chunk) {
  constexpr int side = TileProduct::side;
  const int row = static_cast<int>(threadIdx.x) % side;
  const int first = static_cast<int>(threadIdx.x) / side;
#pragma unroll
  for (int n = 0; n < loads; ++n) {
    const int k = first + n * (TileProduct::threads / side);
    chunk.left[k][row] = loaded.left[n];
    chunk.right[k][row] = loaded.right[n];
  }
}

struct Chunks {
  TileProduct::Chunk chunk[2];
};

__device__ void subtract(const Subtraction& work, std::int64_t i, std::int64_t j) {
  Chunks& chunks = dynamic_shared<Chunks>();
  TileProduct product(static_cast<int>(min(work.rows - i, std::int64_t{TileProduct::side})),
                      static_cast<int>(min(work.columns - j, std::int64_t{TileProduct::side})));
  Loaded loaded;
  load(work, i, j, 0, loaded);
  int now = 0;
  for (std::int64_t k = 0; k < work.depth; k += TileProduct::depth) {
    store(loaded, chunks.chunk[now]);
    __syncthreads();
    if (k + TileProduct::depth < work.depth) {
      load(work, i, j, k + TileProduct::depth, loaded);
    }
    // Threads that are ahead write to the other chunk.
    product.add(chunks.chunk[now]);
    now = 1 - now;
  }
  product.each([&](int row, int column, double sum) {
    if (i + row < work.rows && j + column < work.columns && i + row >= j + column) {
      work.c[i + row + (j + column) * work.c_stride] -= sum;
    }
  });
}

/// The number of a tile's column; `tile` then counts from the column's first one on.
__device__ std::int64_t column_of_tile(std::int64_t rows, std::int64_t& tile) {
  const double b = 2.0 * static_cast<double>(rows) + 1.0;
  const double root = sqrt(max(b * b - 8.0 * static_cast<double>(tile), 0.0));
  auto column = static_cast<std::int64_t>((b - root) / 2.0);
  while (column > 0 && tiles_of(rows, column) > tile) {
    --column;
  }
  while (tiles_of(rows, column + 1) <= tile) {
    ++column;
  }
  tile -= tiles_of(rows, column);
  return column;
}

/// Takes the columns [column, column + 64) off the own columns behind them, or all own columns off
/// the rest.
template <bool of_rest>
__global__ void __launch_bounds__(TileProduct::threads)
    subtract_products(const DeviceFront* all, std::int64_t first, std::int64_t tiles, int column,
                      const std::int32_t* failed) {
  constexpr int side = TileProduct::side;
  const std::int64_t number = first + blockIdx.x / tiles;
  const DeviceFront front = all[number];
  const std::int64_t height = columns_of(front);
  const std::int64_t end = of_rest ? front.own : column + square;
  if (failed[number] != 0 || (!of_rest && end >= front.own)) {
    return;
  }
  const Subtraction work = of_rest ? Subtraction{front.panel + front.own,
                                                 height,
                                                 front.own,
                                                 front.rest,
                                                 front.outer,
                                                 front.outer,
                                                 front.outer}
                                   : Subtraction{front.panel + end + column * height,
                                                 height,
                                                 square,
                                                 front.panel + end + end * height,
                                                 height,
                                                 height - end,
                                                 front.own - end};
  const std::int64_t rows = tiles_along(work.rows);
  std::int64_t tile = blockIdx.x % tiles;
  if (tile >= tiles_of(rows, tiles_along(work.columns))) {
    return;
  }
  const std::int64_t tile_column = column_of_tile(rows, tile);
  subtract(work, (tile_column + tile) * side, tile_column * side);
}

}  // namespace

void FrontDeviceKernels::add_to_parents(cudaStream_t stream, const FrontBatch& children) {
  const std::int64_t pieces = divide_up(children.max_outer, added_columns);
  launch(stream, &add_rests, children.count * pieces, {dim3(adding_threads)}, children.all,
         children.first, pieces);
}

void FrontDeviceKernels::factor(cudaStream_t stream, const FrontBatch& batch,
                                std::int32_t* failed) {
  const Block below_block{dim3(row_threads), sizeof(BelowMemory)};
  const Block product_block{dim3(TileProduct::threads), sizeof(Chunks)};
  allow_shared(&solve_below, below_block.shared_bytes);
  for (std::int64_t column = 0; column < batch.max_own; column += square) {
    const int at = static_cast<int>(column);
    launch(stream, &factor_squares, batch.count, {dim3(square_threads)}, batch.all, batch.first, at,
           failed);
    // A front with fewer own columns begins its rows earlier.
    const std::int64_t below = divide_up(batch.max_columns - column, row_threads);
    launch(stream, &solve_below, batch.count * below, below_block, batch.all, batch.first, below,
           at, failed);
    const std::int64_t left = batch.max_own - column - square;
    if (left > 0) {
      const std::int64_t tiles =
          tiles_of(tiles_along(batch.max_columns - column - square), tiles_along(left));
      launch(stream, &subtract_products<false>, batch.count * tiles, product_block, batch.all,
             batch.first, tiles, at, failed);
    }
  }
  if (batch.max_outer > 0 && batch.max_own > 0) {
    const std::int64_t rows = tiles_along(batch.max_outer);
    const std::int64_t tiles = tiles_of(rows, rows);
    launch(stream, &subtract_products<true>, batch.count * tiles, product_block, batch.all,
           batch.first, tiles, 0, failed);
  }
}

}  // namespace shardsolve::runtime::cuda
