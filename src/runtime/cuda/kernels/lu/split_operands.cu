/// a22 -= l21 u12 in float32 and complex64 on tensor cores, by the kernel of Cholesky's updates:
/// rows of l21 and columns of u12 become columns of packed panels, split in two of float16 as
/// split_panel.cu has it.
///
/// A column there is brought to the size of float16 by one power of two, and a number far below its
/// largest loses bits. In a sum of many terms of like size that is nothing. Where equations are in
/// units of their own it is not: rows of U and columns of L differ in size then, though their
/// products do not, and a small number may be all that an entry has. So numbers that lose bits are
/// counted, and if they are more than a few of any row or column the products are made of floats:
/// on the GPU, as the host does not wait.
#include "runtime/cuda/cholesky_device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"
#include "runtime/cuda/lu_device_kernels.hpp"

#include <cuda_fp16.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int lanes = 32;
constexpr int warps = 8;
constexpr int threads = warps * lanes;

/// Smaller updates are cuBLAS's: to split takes as long as is gained.
constexpr std::int64_t least_width = 128;
constexpr std::int64_t least_side = 1024;

/// Of the numbers of a row or column that are not 0 one of so many may lose bits; of few, none. Of
/// random ones it is one of ten thousand.
constexpr int may_lose = 64;

constexpr int least_exponent = -126;  // below it numbers are subnormal
constexpr int most_exponent = 127;
/// float16 has 15 too, which rounding up may need.
constexpr int split_exponent = 14;
/// Below it, there, two parts of a number have less than its 22 bits.
constexpr int whole_exponent = -2;

/// Of a size, also of 0 and of what is no number.
__device__ int exponent_of(float size) {
  return min(max(ilogbf(size), least_exponent), most_exponent);
}

template <class E>
__device__ float size_of_parts(E x) {
  return fmaxf(fabsf(real(x)), fabsf(imaginary(x)));
}

/// x 2^exponent, where the result is in range.
__device__ float times_power(float x, int exponent) {
  const int some = min(max(exponent, 2 * least_exponent), 2 * most_exponent);
  return x * scalbnf(1.0F, some / 2) * scalbnf(1.0F, some - some / 2);
}

/// A column of a packed panel, split: its high parts, its low parts, and what undoes its power.
template <class E>
struct SplitColumn {
  __half* high;
  __half* low;

  __device__ SplitColumn(const DeviceMatrix<E>& packed, std::int64_t column)
      : high(reinterpret_cast<__half*>(&packed(0, column))), low(high + packed.rows * parts<E>) {}

  __device__ void store(int k, E x, int exponent) const {
    store_real(k * parts<E>, times_power(real(x), exponent));
    if constexpr (parts<E> == 2) {
      store_real(k * parts<E> + 1, times_power(imaginary(x), exponent));
    }
  }
  __device__ void store_factor(int exponent) const { factor() = times_power(1.0F, -exponent); }
  __device__ void leave_out() const { factor() = 0.0F; }

 private:
  __device__ float& factor() const { return *reinterpret_cast<float*>(low + (low - high)); }
  __device__ void store_real(int k, float x) const {
    const __half upper = __float2half_rn(x);
    high[k] = upper;
    low[k] = __float2half_rn(x - __half2float(upper));
  }
};

template <class Combine>
__device__ int over_warp(int value, const Combine& combine) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(~0U, value, distance));
  }
  return value;
}

/// Numbers that are not 0, and those of them that lose bits.
struct Count {
  int all = 0;
  int lossy = 0;

  __device__ void add(float size, int exponent) {
    all += size > 0.0F ? 1 : 0;
    lossy += size > 0.0F && exponent_of(size) + exponent < whole_exponent ? 1 : 0;
  }
  __device__ bool is_too_lossy() const { return lossy * may_lose > all; }
};

/// A warp has a column of u12, which it reads twice.
template <class E>
__global__ void __launch_bounds__(threads)
    split_columns_of_u(DeviceMatrix<const E> u12, DeviceMatrix<E> packed, int* is_lossy) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t column = std::int64_t{blockIdx.x} * warps + threadIdx.x / lanes;
  if (column >= u12.columns) {
    return;
  }
  const int width = static_cast<int>(u12.rows);
  int largest = least_exponent;
#pragma unroll 8
  for (int k = lane; k < width; k += lanes) {
    largest = max(largest, exponent_of(size_of_parts(u12(k, column))));
  }
  const auto larger = [](int one, int other) { return max(one, other); };
  const int exponent = split_exponent - over_warp(largest, larger);
  const SplitColumn<E> target(packed, column);
  Count count;
#pragma unroll 8
  for (int k = lane; k < width; k += lanes) {
    const E entry = u12(k, column);
    target.store(k, entry, exponent);
    count.add(size_of_parts(entry), exponent);
  }
  const auto sum = [](int one, int other) { return one + other; };
  count = {over_warp(count.all, sum), over_warp(count.lossy, sum)};
  if (lane == 0) {
    target.store_factor(exponent);
    if (count.is_too_lossy()) {
      *is_lossy = 1;  // whoever says it says the same
    }
  }
}

/// A block has `lanes` rows of l21, a lane one of them while it reads, and then a column.
template <class E>
__global__ void __launch_bounds__(threads)
    split_rows_of_l(DeviceMatrix<const E> l21, DeviceMatrix<E> packed, int* is_lossy) {
  __shared__ int largest[warps][lanes];
  __shared__ int all[warps][lanes];
  __shared__ int lossy[warps][lanes];
  __shared__ E tile[lanes][lanes + 1];
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int warp = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t first = std::int64_t{blockIdx.x} * lanes;
  const int width = static_cast<int>(l21.columns);
  const bool has_row = first + lane < l21.rows;
  int mine = least_exponent;
#pragma unroll 8
  for (int k = warp; k < width; k += warps) {
    mine = max(mine, exponent_of(has_row ? size_of_parts(l21(first + lane, k)) : 0.0F));
  }
  largest[warp][lane] = mine;
  __syncthreads();
  for (int other = 0; other < warps; ++other) {
    mine = max(mine, largest[other][lane]);
  }
  const int exponent = split_exponent - mine;
  Count count;
  for (int begin = 0; begin < width; begin += lanes) {
    __syncthreads();
    for (int k = warp; k < lanes; k += warps) {
      const E entry = has_row && begin + k < width ? conjugate(l21(first + lane, begin + k)) : E{};
      tile[k][lane] = entry;
      count.add(size_of_parts(entry), exponent);
    }
    __syncthreads();
    for (int row = warp; row < lanes; row += warps) {
      const int of_row = __shfl_sync(~0U, exponent, row);
      if (first + row < l21.rows && begin + lane < width) {
        SplitColumn<E>(packed, first + row).store(begin + lane, tile[lane][row], of_row);
      }
    }
  }
  all[warp][lane] = count.all;
  lossy[warp][lane] = count.lossy;
  __syncthreads();
  if (warp == 0 && has_row) {
    SplitColumn<E>(packed, first + lane).store_factor(exponent);
    for (int other = 1; other < warps; ++other) {
      count.all += all[other][lane];
      count.lossy += lossy[other][lane];
    }
    if (count.is_too_lossy()) {
      *is_lossy = 1;
    }
  }
}

/// Then products of the split numbers are taken 0 times.
template <class E>
__global__ void __launch_bounds__(threads) leave_out(const int* is_lossy, DeviceMatrix<E> packed) {
  const std::int64_t column = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (*is_lossy != 0 && column < packed.columns) {
    SplitColumn<E>(packed, column).leave_out();
  }
}

/// And those of floats are made instead: a block has `side` rows and columns of c, a thread two
/// groups of each, numbers of a group side by side, so that it reads them at once.
template <class E>
struct Plain {
  static constexpr int group = 16 / sizeof(E);
  static constexpr int each = 2 * group;
  static constexpr int threads_a_side = 16;
  static constexpr int side = threads_a_side * each;
  static constexpr int deep = 8;  // products of an entry between two barriers
  static constexpr int loads = side * deep / threads;

  struct Shared {
    alignas(16) E left[2][deep][side];
    /// A group more, so that columns of a row are in different banks.
    alignas(16) E right[2][deep][side + group];
  };
  /// Row or column of c, of a thread's.
  static __device__ int place(int thread, int i) {
    return i / group * (side / 2) + thread * group + i % group;
  }
};

template <class E>
__global__ void __launch_bounds__(threads, 2)
    plain_update(const int* is_lossy, DeviceMatrix<const E> l21, DeviceMatrix<const E> u12,
                 DeviceMatrix<E> c, std::int64_t tiles_down) {
  using Shape = Plain<E>;
  __shared__ typename Shape::Shared shared;
  if (*is_lossy == 0) {
    return;
  }
  const int thread = static_cast<int>(threadIdx.x);
  const int down = thread % Shape::threads_a_side;
  const int across = thread / Shape::threads_a_side;
  const std::int64_t top = blockIdx.x % tiles_down * Shape::side;
  const std::int64_t begin = blockIdx.x / tiles_down * Shape::side;
  const int width = static_cast<int>(l21.columns);
  // What the block needs next is on its way while it works: of each thread, numbers of one row of
  // l21 and of one row of u12.
  constexpr int left_apart = threads / Shape::side;
  constexpr int right_apart = threads / Shape::deep;
  const int left_row = thread % Shape::side;
  const int left_k = thread / Shape::side;
  const int right_k = thread % Shape::deep;
  const int right_column = thread / Shape::deep;
  const bool has_row = top + left_row < l21.rows;
  const E* next_left = &l21(top + left_row, left_k);
  const E* next_right = &u12(right_k, begin + right_column);
  E left[Shape::loads];
  E right[Shape::loads];
  const auto fetch = [&](int from) {
#pragma unroll
    for (int i = 0; i < Shape::loads; ++i) {
      const bool inside = has_row && from + left_k + i * left_apart < width;
      left[i] = inside ? next_left[i * left_apart * l21.stride] : E{};
    }
#pragma unroll
    for (int i = 0; i < Shape::loads; ++i) {
      const bool inside =
          from + right_k < width && begin + right_column + i * right_apart < u12.columns;
      right[i] = inside ? next_right[i * right_apart * u12.stride] : E{};
    }
    next_left += Shape::deep * l21.stride;
    next_right += Shape::deep;
  };
  const auto store = [&](int buffer) {
#pragma unroll
    for (int i = 0; i < Shape::loads; ++i) {
      shared.left[buffer][left_k + i * left_apart][left_row] = left[i];
      shared.right[buffer][right_k][right_column + i * right_apart] = right[i];
    }
  };
  E sum[Shape::each][Shape::each] = {};
  fetch(0);
  store(0);
  __syncthreads();
  for (int from = 0, buffer = 0; from < width; from += Shape::deep, buffer = 1 - buffer) {
    const bool has_more = from + Shape::deep < width;
    if (has_more) {
      fetch(from + Shape::deep);
    }
#pragma unroll
    for (int k = 0; k < Shape::deep; ++k) {
      E x[Shape::each];
      E y[Shape::each];
#pragma unroll
      for (int i = 0; i < Shape::each; ++i) {
        x[i] = shared.left[buffer][k][Shape::place(down, i)];
        y[i] = shared.right[buffer][k][Shape::place(across, i)];
      }
#pragma unroll
      for (int i = 0; i < Shape::each; ++i) {
#pragma unroll
        for (int j = 0; j < Shape::each; ++j) {
          sum[i][j] = add_product(sum[i][j], x[i], y[j]);
        }
      }
    }
    if (has_more) {
      store(1 - buffer);  // which everybody has read before the last barrier
      __syncthreads();
    }
  }
#pragma unroll
  for (int j = 0; j < Shape::each; ++j) {
#pragma unroll
    for (int i = 0; i < Shape::each; ++i) {
      const std::int64_t row = top + Shape::place(down, i);
      const std::int64_t column = begin + Shape::place(across, j);
      if (row < c.rows && column < c.columns) {
        c(row, column) = subtract_product(c(row, column), from_real<E>(1), sum[i][j]);
      }
    }
  }
}

/// How the memory for an update is divided.
template <class E>
struct Operands {
  MatrixView<E> left;
  MatrixView<E> right;
  int* is_lossy;

  static constexpr std::int64_t stride(std::int64_t width) {
    return width + CholeskyDeviceKernels<E>::split_rows;
  }
  Operands(E* memory, std::int64_t width, std::int64_t rows, std::int64_t columns)
      : left(memory, width, rows, stride(width)),
        right(memory + rows * stride(width), width, columns, stride(width)),
        is_lossy(reinterpret_cast<int*>(memory + (rows + columns) * stride(width))) {}
  static std::int64_t elements(std::int64_t width, std::int64_t rows, std::int64_t columns) {
    static_assert(sizeof(E) >= sizeof(int));
    return (rows + columns) * stride(width) + 1;
  }
};

}  // namespace

template <class E>
bool LuDeviceKernels<E>::splits_update(std::int64_t width, std::int64_t rows,
                                       std::int64_t columns) {
  return CholeskyDeviceKernels<E>::splits_panels(width) && width >= least_width &&
         rows >= least_side && columns >= least_side;
}

template <class E>
std::int64_t LuDeviceKernels<E>::split_scratch(std::int64_t width, std::int64_t rows,
                                               std::int64_t columns) {
  return Operands<E>::elements(width, rows, columns);
}

template <class E>
void LuDeviceKernels<E>::split_update(cudaStream_t stream, In l21, In u12, Out a22, E* scratch) {
  if constexpr (std::is_same_v<RealPart<E>, float>) {
    const std::int64_t width = l21.columns();
    const Operands<E> operands(scratch, width, a22.rows(), a22.columns());
    int* const is_lossy = operands.is_lossy;
    set_bytes(stream, is_lossy, 0, sizeof(int));
    launch(stream, &split_columns_of_u<E>, divide_up(u12.columns(), warps), {dim3(threads)},
           device(u12), device(operands.right), is_lossy);
    launch(stream, &split_rows_of_l<E>, divide_up(l21.rows(), lanes), {dim3(threads)}, device(l21),
           device(operands.left), is_lossy);
    const int* const lossy = is_lossy;
    launch(stream, &leave_out<E>, divide_up(u12.columns(), threads), {dim3(threads)}, lossy,
           device(operands.right));
    const auto down = divide_up(a22.rows(), update_rows);
    const auto across = divide_up(a22.columns(), update_columns<E>);
    UpdatePieces<E> pieces;
    pieces.count = 1;
    pieces.tiles = static_cast<std::uint32_t>(down * across);
    pieces.pieces[0] = {.c = a22.data(),
                        .stride = a22.stride(),
                        .c_apart = 0,
                        .left = 0,
                        .right = 0,
                        .apart = 0,
                        .rows = static_cast<std::int32_t>(a22.rows()),
                        .columns = static_cast<std::int32_t>(a22.columns()),
                        .tiles = pieces.tiles,
                        .first_tile = 0,
                        .lower = false};
    CholeskyDeviceKernels<E>::update(stream, operands.left, operands.right, pieces);
    const std::int64_t tiles_down = divide_up(a22.rows(), Plain<E>::side);
    launch(stream, &plain_update<E>, tiles_down * divide_up(a22.columns(), Plain<E>::side),
           {dim3(threads)}, lossy, device(l21), device(u12), device(a22), tiles_down);
  }
}

#define SHARDSOLVE_INSTANTIATE(E)                                                            \
  template bool LuDeviceKernels<E>::splits_update(std::int64_t, std::int64_t, std::int64_t); \
  template std::int64_t LuDeviceKernels<E>::split_scratch(std::int64_t, std::int64_t,        \
                                                          std::int64_t);                     \
  template void LuDeviceKernels<E>::split_update(cudaStream_t, In, In, Out, E*);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
