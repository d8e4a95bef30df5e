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

/// And those of floats are made instead: a thread has `each` rows and columns of c, 16 apart.
template <class E>
constexpr int each = parts<E> == 1 ? 8 : 4;
template <class E>
constexpr int plain_side = 16 * each<E>;
constexpr int plain_deep = 8;

template <class E>
__global__ void __launch_bounds__(threads)
    plain_update(const int* is_lossy, DeviceMatrix<const E> l21, DeviceMatrix<const E> u12,
                 DeviceMatrix<E> c, std::int64_t tiles_down) {
  if (*is_lossy == 0) {
    return;
  }
  constexpr int side = plain_side<E>;
  __shared__ E left[plain_deep][side];
  __shared__ E right[plain_deep][side + 1];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t top = blockIdx.x % tiles_down * side;
  const std::int64_t begin = blockIdx.x / tiles_down * side;
  const std::int64_t width = l21.columns;
  E sum[each<E>][each<E>] = {};
  for (std::int64_t from = 0; from < width; from += plain_deep) {
    for (int at = thread; at < side * plain_deep; at += threads) {
      const int row = at % side;
      const int k = at / side;
      left[k][row] = top + row < l21.rows && from + k < width ? l21(top + row, from + k) : E{};
      const int deep = at % plain_deep;
      const int column = at / plain_deep;
      right[deep][column] = begin + column < u12.columns && from + deep < width
                                ? u12(from + deep, begin + column)
                                : E{};
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < plain_deep; ++k) {
#pragma unroll
      for (int i = 0; i < each<E>; ++i) {
        const E x = left[k][thread % 16 + 16 * i];
#pragma unroll
        for (int j = 0; j < each<E>; ++j) {
          sum[i][j] = add_product(sum[i][j], x, right[k][thread / 16 + 16 * j]);
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < each<E>; ++j) {
#pragma unroll
    for (int i = 0; i < each<E>; ++i) {
      const std::int64_t row = top + thread % 16 + 16 * i;
      const std::int64_t column = begin + thread / 16 + 16 * j;
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
    const std::int64_t tiles_down = divide_up(a22.rows(), plain_side<E>);
    launch(stream, &plain_update<E>, tiles_down * divide_up(a22.columns(), plain_side<E>),
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
