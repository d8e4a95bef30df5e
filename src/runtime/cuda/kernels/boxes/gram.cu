/// Products of the orthonormal blocks of two boxes over the rows that they share, which are found
/// by looking each row of the one up in the other.
#include "runtime/cuda/box_device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/tile_product.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = TileProduct::threads;
constexpr int warps = threads / 32;

struct GramMemory {
  TileProduct::Chunk chunk;
  int left[threads];  ///< shared rows in the two boxes, of so many rows of the left one
  int right[threads];
  int counts[warps];
};

/// Where `wanted` is among `count` ascending numbers; -1 if it is none of them.
__device__ int find(const std::int32_t* numbers, int count, std::int32_t wanted) {
  int low = 0;
  int high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (numbers[middle] < wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < count && numbers[low] == wanted ? low : -1;
}

/// One box's part of a tile: so many columns of Q.
struct Part {
  const double* q;
  std::int64_t rows;
  int columns;
};
__device__ Part part_of(const BoxBlocks& blocks, std::int32_t box, int tile) {
  const std::int64_t begin = blocks.begin[box];
  const std::int64_t rows = blocks.begin[box + 1] - begin;
  const int first = tile * TileProduct::side;
  return {blocks.q + begin * blocks.columns + first * rows, rows,
          min(blocks.rank[box] - first, TileProduct::side)};
}

__device__ void load(const Part& part, const int* rows, int count,
                     double (&to)[TileProduct::depth][TileProduct::Chunk::stride]) {
  const int k = static_cast<int>(threadIdx.x) % TileProduct::depth;
  const int row = k < count ? rows[k] : 0;
  for (int c = static_cast<int>(threadIdx.x) / TileProduct::depth; c < TileProduct::side;
       c += threads / TileProduct::depth) {
    to[k][c] = k < count && c < part.columns ? part.q[row + c * part.rows] : 0.0;
  }
}

/// Puts the shared rows among `threads` of the left box into memory; how many there are.
__device__ int find_shared(const BoxBlocks& blocks, const GramBlock& wanted, int first,
                           GramMemory& memory) {
  const std::int64_t left = blocks.begin[wanted.i];
  const std::int64_t right = blocks.begin[wanted.j];
  const int thread = static_cast<int>(threadIdx.x);
  const int row = first + thread;
  int found = -1;
  if (row < blocks.begin[wanted.i + 1] - left) {
    found = find(blocks.row + right, static_cast<int>(blocks.begin[wanted.j + 1] - right),
                 blocks.row[left + row]);
  }
  const unsigned votes = __ballot_sync(0xffffffffU, found >= 0);
  if (thread % 32 == 0) {
    memory.counts[thread / 32] = __popc(votes);
  }
  __syncthreads();
  int before = __popc(votes & ((1U << (thread % 32)) - 1U));
  int total = 0;
  for (int w = 0; w < warps; ++w) {
    before += w < thread / 32 ? memory.counts[w] : 0;
    total += memory.counts[w];
  }
  if (found >= 0) {
    memory.left[before] = row;
    memory.right[before] = found;
  }
  __syncthreads();
  return total;
}

__global__ void __launch_bounds__(threads)
    gram_blocks(const __grid_constant__ BoxBlocks blocks, const GramBlock* all, int tiles,
                double shift) {
  GramMemory& memory = dynamic_shared<GramMemory>();
  const GramBlock wanted = all[blockIdx.x / (tiles * tiles)];
  const int tile = static_cast<int>(blockIdx.x) % (tiles * tiles);
  if (wanted.i == wanted.j) {
    for (int k = static_cast<int>(threadIdx.x); tile == 0 && k < blocks.rank[wanted.i];
         k += threads) {
      wanted.target[k + k * wanted.stride] = 1.0 + shift;
    }
    return;
  }
  const Part left = part_of(blocks, wanted.i, tile % tiles);
  const Part right = part_of(blocks, wanted.j, tile / tiles);
  if (left.columns <= 0 || right.columns <= 0) {
    return;
  }
  TileProduct product(left.columns, right.columns);
  for (int first = 0; first < left.rows; first += threads) {
    const int count = find_shared(blocks, wanted, first, memory);
    for (int k = 0; k < count; k += TileProduct::depth) {
      load(left, memory.left + k, count - k, memory.chunk.left);
      load(right, memory.right + k, count - k, memory.chunk.right);
      __syncthreads();
      product.add(memory.chunk);
      __syncthreads();
    }
  }
  double* const target = wanted.target + tile % tiles * TileProduct::side +
                         tile / tiles * TileProduct::side * wanted.stride;
  product.each([&](int row, int column, double sum) {
    if (row < left.columns && column < right.columns) {
      target[row + column * wanted.stride] = sum;
    }
  });
}

}  // namespace

void BoxDeviceKernels::gram(cudaStream_t stream, const BoxBlocks& blocks, const GramBlock* wanted,
                            std::int64_t count, double shift) {
  const std::int64_t tiles = divide_up(blocks.columns, TileProduct::side);
  launch(stream, &gram_blocks, count * tiles * tiles, {dim3(threads), sizeof(GramMemory)}, blocks,
         wanted, static_cast<int>(tiles), shift);
}

}  // namespace shardsolve::runtime::cuda
