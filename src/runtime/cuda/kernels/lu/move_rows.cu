/// Rows that are swapped, chosen or turned into columns, and columns that are put in order.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/lu_device_kernels.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 256;

/// Swaps in turn are one exchange of rows: those from 0 to `count` and those that they were swapped
/// with. A thread follows from the last swap to the first where what its row ends with has stood.
/// Of few columns each block does so by itself; of many it would take longer than to move the rows,
/// and is done once.
constexpr int swap_threads = 512;
constexpr int lanes = 32;
constexpr int together = 4;
constexpr std::int64_t few_blocks = 256;
constexpr auto nowhere = ~std::uint32_t{0};

/// Two rows that a thread has, and where what they end with has stood.
struct Moves {
  std::uint32_t to[2] = {nowhere, nowhere};
  std::uint32_t from[2] = {nowhere, nowhere};

  /// Of row `number` of those from 0 to `count`, and the one that it was swapped with.
  __device__ Moves(int number, const std::uint32_t* swapped_with, int count) {
    if (number < count) {
      to[0] = static_cast<std::uint32_t>(number);
      const std::uint32_t other = swapped_with[number];
      to[1] = other >= static_cast<std::uint32_t>(count) ? other : nowhere;
    }
  }
  __device__ void follow(const std::uint32_t* swapped_with, int count) {
    from[0] = to[0];
    from[1] = to[1];
#pragma unroll 8
    for (auto j = static_cast<std::uint32_t>(count); j-- > 0;) {
      const std::uint32_t other = swapped_with[j];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        from[k] = from[k] == j ? other : from[k] == other ? j : from[k];
      }
    }
  }
};

__device__ void take_places(std::int64_t first, const std::int64_t* places, int count,
                            std::uint32_t* swapped_with) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    swapped_with[i] = static_cast<std::uint32_t>(places[i] - first);
  }
  __syncthreads();
}

/// A warp a block, as a multiprocessor has much to do for one.
__global__ void __launch_bounds__(lanes)
    follow_swaps(std::int64_t first, const std::int64_t* places, int count, std::uint32_t* from) {
  auto* const swapped_with = &dynamic_shared<std::uint32_t>();
  take_places(first, places, count, swapped_with);
  const int number = static_cast<int>(blockIdx.x * lanes + threadIdx.x);
  Moves moves(number, swapped_with, count);
  moves.follow(swapped_with, count);
  from[number] = moves.from[0];
  from[swap_threads + number] = moves.from[1];
}

template <class E>
__global__ void __launch_bounds__(swap_threads)
    exchange_rows(std::int64_t first, const std::int64_t* places, int count,
                  const std::uint32_t* from, DeviceMatrix<E> a) {
  auto* const swapped_with = &dynamic_shared<std::uint32_t>();
  const int thread = static_cast<int>(threadIdx.x);
  take_places(first, places, count, swapped_with);
  Moves moves(thread, swapped_with, count);
  if (from == nullptr) {
    moves.follow(swapped_with, count);
  } else {
    moves.from[0] = from[thread];
    moves.from[1] = from[swap_threads + thread];
  }
  const std::int64_t column = std::int64_t{blockIdx.x} * together;
  E values[2][together];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
#pragma unroll
    for (int c = 0; c < together; ++c) {
      if (moves.from[k] != moves.to[k] && column + c < a.columns) {
        values[k][c] = a(moves.from[k], column + c);
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 2; ++k) {
#pragma unroll
    for (int c = 0; c < together; ++c) {
      if (moves.from[k] != moves.to[k] && column + c < a.columns) {
        a(moves.to[k], column + c) = values[k][c];
      }
    }
  }
}

template <class E>
__global__ void __launch_bounds__(threads)
    choose(DeviceMatrix<const E> source, const std::int64_t* columns, DeviceMatrix<E> target) {
  const std::int64_t at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const std::int64_t i = at % target.rows;
  const std::int64_t j = at / target.rows;
  if (j < target.columns) {
    target(i, j) = source(j, columns[i]);
  }
}

/// A block has `threads` rows of some columns.
template <class E>
__global__ void __launch_bounds__(threads)
    choose_lines(DeviceMatrix<const E> source, const std::int64_t* rows, DeviceMatrix<E> target,
                 std::int64_t blocks_of_column) {
  const std::int64_t i = blockIdx.x % blocks_of_column * threads + threadIdx.x;
  const std::int64_t first = blockIdx.x / blocks_of_column * together;
  if (i >= target.rows) {
    return;
  }
  const std::int64_t from = rows[i];
#pragma unroll
  for (int c = 0; c < together; ++c) {
    if (first + c < target.columns) {
      target(i, first + c) = source(from, first + c);
    }
  }
}

/// A block has a column.
constexpr int order_threads = 512;
template <class E>
__global__ void __launch_bounds__(order_threads)
    order_lines(const std::int64_t* rows, DeviceMatrix<E> a) {
  E* const column = &dynamic_shared<E>();
  E* const there = &a(0, blockIdx.x);
  const int count = static_cast<int>(a.rows);
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < count; i += order_threads) {
    column[i] = there[i];
  }
  __syncthreads();
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < count; i += order_threads) {
    there[i] = column[rows[i]];
  }
}

/// A block has `threads` rows of one column.
template <class E>
__global__ void __launch_bounds__(threads)
    order(DeviceMatrix<const E> source, const std::int64_t* columns, DeviceMatrix<E> target,
          std::int64_t blocks_of_column) {
  const std::int64_t j = blockIdx.x / blocks_of_column;
  const std::int64_t i = blockIdx.x % blocks_of_column * threads + threadIdx.x;
  if (i < target.rows) {
    target(i, j) = source(i, columns[j]);
  }
}

constexpr int side = 32;
constexpr int lines = 8;

template <class E>
__global__ void __launch_bounds__(side* lines)
    turn_tiles(DeviceMatrix<const E> source, DeviceMatrix<E> target, std::int64_t tile_rows) {
  // One column more than the tile has: no two threads of a warp then meet in one memory bank.
  __shared__ E tile[side][side + 1];
  const std::int64_t top = blockIdx.x % tile_rows * side;
  const std::int64_t left = blockIdx.x / tile_rows * side;
  for (int line = static_cast<int>(threadIdx.y); line < side; line += lines) {
    if (top + threadIdx.x < source.rows && left + line < source.columns) {
      tile[line][threadIdx.x] = source(top + threadIdx.x, left + line);
    }
  }
  __syncthreads();
  for (int line = static_cast<int>(threadIdx.y); line < side; line += lines) {
    if (top + line < source.rows && left + threadIdx.x < source.columns) {
      target(left + threadIdx.x, top + line) = tile[threadIdx.x][line];
    }
  }
}

}  // namespace

template <class E>
void LuDeviceKernels<E>::swap_rows(cudaStream_t stream, std::int64_t first,
                                   const std::int64_t* places, std::int64_t count, Out a,
                                   void* scratch) {
  static_assert(max_swaps == swap_threads);
  constexpr std::size_t shared = sizeof(std::uint32_t) * max_swaps;
  const std::int64_t warps = divide_up(count, lanes);
  const std::int64_t blocks = divide_up(a.columns(), together);
  auto* const from = blocks > few_blocks ? static_cast<std::uint32_t*>(scratch) : nullptr;
  if (from != nullptr) {
    launch(stream, &follow_swaps, warps, {dim3(lanes), shared}, first, places,
           static_cast<int>(count), from);
  }
  launch(stream, &exchange_rows<E>, blocks, {dim3(static_cast<unsigned>(warps * lanes)), shared},
         first, places, static_cast<int>(count), static_cast<const std::uint32_t*>(from),
         device(a));
}

template <class E>
void LuDeviceKernels<E>::choose_columns(cudaStream_t stream, In source, const std::int64_t* columns,
                                        Out target) {
  launch(stream, &choose<E>, divide_up(target.rows() * target.columns(), threads), {dim3(threads)},
         device(source), columns, device(target));
}

template <class E>
void LuDeviceKernels<E>::choose_rows(cudaStream_t stream, In source, const std::int64_t* rows,
                                     Out target) {
  const std::int64_t blocks_of_column = divide_up(target.rows(), threads);
  launch(stream, &choose_lines<E>, blocks_of_column * divide_up(target.columns(), together),
         {dim3(threads)}, device(source), rows, device(target), blocks_of_column);
}

template <class E>
bool LuDeviceKernels<E>::orders_rows(std::int64_t rows) {
  return static_cast<std::size_t>(rows) * sizeof(E) <= max_shared();
}

template <class E>
void LuDeviceKernels<E>::order_rows(cudaStream_t stream, const std::int64_t* rows, Out a) {
  const std::size_t bytes = static_cast<std::size_t>(a.rows()) * sizeof(E);
  // The same whatever the size, as other threads may launch it on this GPU too.
  allow_shared(&order_lines<E>, max_shared());
  launch(stream, &order_lines<E>, a.columns(), {dim3(order_threads), bytes}, rows, device(a));
}

template <class E>
void LuDeviceKernels<E>::order_columns(cudaStream_t stream, In source, const std::int64_t* columns,
                                       Out target) {
  const std::int64_t blocks_of_column = divide_up(target.rows(), threads);
  launch(stream, &order<E>, blocks_of_column * target.columns(), {dim3(threads)}, device(source),
         columns, device(target), blocks_of_column);
}

template <class E>
void LuDeviceKernels<E>::transpose(cudaStream_t stream, In source, Out target) {
  const std::int64_t tile_rows = divide_up(source.rows(), side);
  launch(stream, &turn_tiles<E>, tile_rows * divide_up(source.columns(), side), {dim3(side, lines)},
         device(source), device(target), tile_rows);
}

#define SHARDSOLVE_INSTANTIATE(E)                                                               \
  template void LuDeviceKernels<E>::swap_rows(cudaStream_t, std::int64_t, const std::int64_t*,  \
                                              std::int64_t, Out, void*);                        \
  template void LuDeviceKernels<E>::choose_columns(cudaStream_t, In, const std::int64_t*, Out); \
  template void LuDeviceKernels<E>::choose_rows(cudaStream_t, In, const std::int64_t*, Out);    \
  template bool LuDeviceKernels<E>::orders_rows(std::int64_t);                                  \
  template void LuDeviceKernels<E>::order_rows(cudaStream_t, const std::int64_t*, Out);         \
  template void LuDeviceKernels<E>::order_columns(cudaStream_t, In, const std::int64_t*, Out);  \
  template void LuDeviceKernels<E>::transpose(cudaStream_t, In, Out);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
