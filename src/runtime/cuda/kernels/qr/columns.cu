/// Columns scaled by powers of two, and their sizes. A block has some rows of a column.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/qr/block_sums.cuh"
#include "runtime/cuda/qr_device_kernels.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

namespace shardsolve::runtime::cuda {
namespace {

template <class R>
__device__ R power_of_two(std::int64_t exponent) {
  constexpr std::int64_t most = std::numeric_limits<R>::max_exponent - 1;
  const std::int64_t within = exponent < -most ? -most : exponent > most ? most : exponent;
  return static_cast<R>(scalbn(R{1}, static_cast<int>(within)));
}

constexpr int elements_a_thread = 16;
constexpr std::int64_t rows_a_block = qr::threads * elements_a_thread;

/// The rows of a block: those of a thread are `threads` apart.
struct Place {
  std::int64_t column;
  std::int64_t first_row;

  explicit __device__ Place(std::int64_t chunks)
      : column(blockIdx.x / chunks), first_row(blockIdx.x % chunks * rows_a_block + threadIdx.x) {}
};

/// In two steps: the power itself may be out of range where the product is not.
template <class E>
__global__ void __launch_bounds__(qr::threads)
    scale_by_powers(DeviceMatrix<const E> source, const std::int64_t* exponents,
                    DeviceMatrix<E> target, std::int64_t chunks) {
  using R = RealPart<E>;
  const Place at(chunks);
  const std::int64_t exponent = exponents[at.column];
  const R first = power_of_two<R>(exponent / 2);
  const R second = power_of_two<R>(exponent - exponent / 2);
#pragma unroll
  for (int e = 0; e < elements_a_thread; ++e) {
    const std::int64_t i = at.first_row + e * qr::threads;
    if (i < source.rows) {
      target(i, at.column) = scaled(scaled(source(i, at.column), first), second);
    }
  }
}

/// sizes[0] = the largest modulus, sizes[1] = the sum of squares of moduli relative to it.
__device__ void store_sizes(double most, double sum, double* sizes) {
  if (threadIdx.x == 0) {
    sizes[0] = most;
    sizes[1] = isnan(most) ? most : sum;
  }
}

template <class E>
__global__ void __launch_bounds__(qr::threads)
    size_pieces(DeviceMatrix<const E> a, std::int64_t chunks, double* sizes) {
  const Place at(chunks);
  double moduli[elements_a_thread];
  double most = 0;
#pragma unroll
  for (int e = 0; e < elements_a_thread; ++e) {
    const std::int64_t i = at.first_row + e * qr::threads;
    moduli[e] = i < a.rows ? qr::modulus(qr::widened(a(i, at.column))) : 0;
    most = qr::larger(most, moduli[e]);
  }
  most = qr::over_block(most, qr::Larger{});
  // Squares of numbers near 1 leave no range.
  const double factor = to_unit_size(most);
  double sum = 0;
#pragma unroll
  for (int e = 0; e < elements_a_thread; ++e) {
    const double part = moduli[e] * factor;
    sum += part * part;
  }
  sum = qr::block_sum(sum);
  const double largest = most * factor;
  store_sizes(most, most > 0 ? sum / (largest * largest) : 0, sizes + 2 * blockIdx.x);
}

/// Those of columns from those of their pieces. A block has a column.
__global__ void __launch_bounds__(qr::threads)
    join_sizes(const double* pieces, std::int64_t chunks, double* sizes) {
  const double* const own = pieces + 2 * chunks * blockIdx.x;
  double most = 0;
  for (std::int64_t piece = threadIdx.x; piece < chunks; piece += qr::threads) {
    most = qr::larger(most, own[2 * piece]);
  }
  most = qr::over_block(most, qr::Larger{});
  double sum = 0;
  for (std::int64_t piece = threadIdx.x; piece < chunks && most > 0; piece += qr::threads) {
    const double relative = own[2 * piece] / most;
    sum += relative * relative * own[2 * piece + 1];
  }
  store_sizes(most, qr::block_sum(sum), sizes + 2 * blockIdx.x);
}

}  // namespace

template <class E>
void QrDeviceKernels<E>::scale_columns(cudaStream_t stream, In source,
                                       const std::int64_t* exponents, Out target) {
  const std::int64_t chunks = divide_up(source.rows(), rows_a_block);
  launch(stream, &scale_by_powers<E>, chunks * source.columns(), {dim3(qr::threads)},
         device(source), exponents, device(target), chunks);
}

template <class E>
std::size_t QrDeviceKernels<E>::column_sizes_scratch(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(2 * divide_up(rows, rows_a_block) * columns) * sizeof(double);
}

template <class E>
void QrDeviceKernels<E>::column_sizes(cudaStream_t stream, In a, double* target, void* scratch) {
  const Block block{dim3(qr::threads)};
  const std::int64_t chunks = divide_up(a.rows(), rows_a_block);
  double* const pieces = chunks == 1 ? target : static_cast<double*>(scratch);
  launch(stream, &size_pieces<E>, chunks * a.columns(), block, device(a), chunks, pieces);
  if (chunks != 1) {
    launch(stream, &join_sizes, a.columns(), block, static_cast<const double*>(pieces), chunks,
           target);
  }
}

#define SHARDSOLVE_INSTANTIATE(E)                                                              \
  template void QrDeviceKernels<E>::scale_columns(cudaStream_t, In, const std::int64_t*, Out); \
  template std::size_t QrDeviceKernels<E>::column_sizes_scratch(std::int64_t, std::int64_t);   \
  template void QrDeviceKernels<E>::column_sizes(cudaStream_t, In, double*, void*);

SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
