/// a22 -= l21 u12 in float32 and complex64 on tensor cores, by the kernel of Cholesky's updates:
/// rows of l21 and columns of u12 become columns of packed panels, split in two of float16 as
/// split_panel.cu has it.
///
/// A column there is brought to the size of float16 by one power of two, and what is far below its
/// largest number loses bits. Equations in other units, though, give U rows and L columns that
/// differ in size, though their products do not. So first row k of u12 is divided, and column k of
/// l21 multiplied, by a power of two: such that all of these rows are of one size, that of the
/// largest. Then l21 is at most what it was, and nothing leaves the range.
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

/// Columns of u12 are looked at in so many parts.
constexpr int parts_of_u12 = 64;

constexpr int least_exponent = -126;  // below it numbers are subnormal
constexpr int most_exponent = 127;
/// float16 has 15 too, which rounding up may need.
constexpr int split_exponent = 14;

/// Of a size, also of 0 and of what is no number.
__device__ int exponent_of(float size) {
  return min(max(ilogbf(size), least_exponent), most_exponent);
}

template <class E>
__device__ float size_of_parts(E x) {
  return fmaxf(fabsf(real(x)), fabsf(imaginary(x)));
}

/// x 2^exponent, where neither x nor the result is out of the range of normal numbers.
__device__ float times_power(float x, int exponent) {
  const int some = min(max(exponent, 2 * least_exponent), 2 * most_exponent);
  return x * scalbnf(1.0F, some / 2) * scalbnf(1.0F, some - some / 2);
}

/// What is known of the operands: for each column of l21, a row of u12, its largest number in each
/// part of u12; then how far its exponent is below the largest of all.
struct Exponents {
  float* sizes;  ///< [parts_of_u12][width]
  int* below;    ///< [width]
};

template <class E>
__global__ void __launch_bounds__(threads)
    look_at_rows(DeviceMatrix<const E> u12, std::int64_t columns_a_part, float* sizes) {
  const std::int64_t row = blockIdx.x / parts_of_u12 * threads + threadIdx.x;
  const std::int64_t first = blockIdx.x % parts_of_u12 * columns_a_part;
  const std::int64_t end = min(first + columns_a_part, u12.columns);
  if (row < u12.rows) {
    float largest = 0.0F;
#pragma unroll 8
    for (std::int64_t j = first; j < end; ++j) {
      largest = fmaxf(largest, size_of_parts(u12(row, j)));
    }
    sizes[blockIdx.x % parts_of_u12 * u12.rows + row] = largest;
  }
}

/// One block.
__global__ void __launch_bounds__(threads) compare_rows(Exponents of, int width) {
  __shared__ int largest[threads];
  const int thread = static_cast<int>(threadIdx.x);
  int mine = least_exponent;
  for (int k = thread; k < width; k += threads) {
    float size = 0.0F;
    for (int part = 0; part < parts_of_u12; ++part) {
      size = fmaxf(size, of.sizes[part * width + k]);
    }
    of.below[k] = exponent_of(size);
    mine = max(mine, of.below[k]);
  }
  largest[thread] = mine;
  __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (thread < half) {
      largest[thread] = max(largest[thread], largest[thread + half]);
    }
    __syncthreads();
  }
  for (int k = thread; k < width; k += threads) {
    of.below[k] = largest[0] - of.below[k];
  }
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
  __device__ void store_factor(int exponent) const {
    *reinterpret_cast<float*>(low + (low - high)) = times_power(1.0F, -exponent);
  }

 private:
  __device__ void store_real(int k, float x) const {
    const __half upper = __float2half_rn(x);
    high[k] = upper;
    low[k] = __float2half_rn(x - __half2float(upper));
  }
};

__device__ int largest_of_warp(int value) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value = max(value, __shfl_xor_sync(~0U, value, distance));
  }
  return value;
}

/// A warp has a column of u12, which it reads twice.
template <class E>
__global__ void __launch_bounds__(threads)
    split_columns_of_u(DeviceMatrix<const E> u12, const int* below, DeviceMatrix<E> packed) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t column = std::int64_t{blockIdx.x} * warps + threadIdx.x / lanes;
  if (column >= u12.columns) {
    return;
  }
  const int width = static_cast<int>(u12.rows);
  int largest = least_exponent;
#pragma unroll 8
  for (int k = lane; k < width; k += lanes) {
    const float size = size_of_parts(u12(k, column));
    largest = max(largest, size > 0.0F ? exponent_of(size) + below[k] : least_exponent);
  }
  const int exponent = split_exponent - min(largest_of_warp(largest), most_exponent);
  const SplitColumn<E> target(packed, column);
#pragma unroll 8
  for (int k = lane; k < width; k += lanes) {
    target.store(k, u12(k, column), exponent + below[k]);
  }
  if (lane == 0) {
    target.store_factor(exponent);
  }
}

/// A block has `lanes` rows of l21, a lane one of them while it reads, and then a column.
template <class E>
__global__ void __launch_bounds__(threads)
    split_rows_of_l(DeviceMatrix<const E> l21, const int* below, DeviceMatrix<E> packed) {
  __shared__ int largest[warps][lanes];
  __shared__ E tile[lanes][lanes + 1];
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int warp = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t first = std::int64_t{blockIdx.x} * lanes;
  const int width = static_cast<int>(l21.columns);
  const bool has_row = first + lane < l21.rows;
  int mine = least_exponent;
#pragma unroll 8
  for (int k = warp; k < width; k += warps) {
    const float size = has_row ? size_of_parts(l21(first + lane, k)) : 0.0F;
    mine = max(mine, size > 0.0F ? exponent_of(size) - below[k] : least_exponent);
  }
  largest[warp][lane] = mine;
  __syncthreads();
  for (int other = 0; other < warps; ++other) {
    mine = max(mine, largest[other][lane]);
  }
  const int exponent = split_exponent - mine;
  for (int begin = 0; begin < width; begin += lanes) {
    __syncthreads();
    for (int k = warp; k < lanes; k += warps) {
      tile[k][lane] = has_row && begin + k < width ? conjugate(l21(first + lane, begin + k)) : E{};
    }
    __syncthreads();
    for (int row = warp; row < lanes; row += warps) {
      const int of_row = __shfl_sync(~0U, exponent, row);
      if (first + row < l21.rows && begin + lane < width) {
        SplitColumn<E>(packed, first + row)
            .store(begin + lane, tile[lane][row], of_row - below[begin + lane]);
      }
    }
  }
  if (warp == 0 && has_row) {
    SplitColumn<E>(packed, first + lane).store_factor(exponent);
  }
}

/// How the memory for an update is divided.
template <class E>
struct Operands {
  MatrixView<E> left;
  MatrixView<E> right;
  Exponents exponents;

  static constexpr std::int64_t stride(std::int64_t width) {
    return width + CholeskyDeviceKernels<E>::split_rows;
  }
  Operands(E* memory, std::int64_t width, std::int64_t rows, std::int64_t columns)
      : left(memory, width, rows, stride(width)),
        right(memory + rows * stride(width), width, columns, stride(width)),
        exponents{reinterpret_cast<float*>(memory + (rows + columns) * stride(width)), nullptr} {
    exponents.below = reinterpret_cast<int*>(exponents.sizes + parts_of_u12 * width);
  }
  static std::int64_t elements(std::int64_t width, std::int64_t rows, std::int64_t columns) {
    static_assert(sizeof(E) >= sizeof(float) && sizeof(float) == sizeof(int));
    return (rows + columns) * stride(width) + (parts_of_u12 + 1) * width;
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
    const Exponents& exponents = operands.exponents;
    launch(stream, &look_at_rows<E>, divide_up(width, threads) * parts_of_u12, {dim3(threads)},
           device(u12), divide_up(u12.columns(), parts_of_u12), exponents.sizes);
    launch(stream, &compare_rows, 1, {dim3(threads)}, exponents, static_cast<int>(width));
    const int* const below = exponents.below;
    launch(stream, &split_columns_of_u<E>, divide_up(u12.columns(), warps), {dim3(threads)},
           device(u12), below, device(operands.right));
    launch(stream, &split_rows_of_l<E>, divide_up(l21.rows(), lanes), {dim3(threads)}, device(l21),
           below, device(operands.left));
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
