/// Sums of products of pieces of a tall matrix, in an order that depends on their number alone.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/qr/block_sums.cuh"
#include "runtime/cuda/qr_device_kernels.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

/// Products that are on their way at the same time.
constexpr int together = 8;

template <class E>
__global__ void __launch_bounds__(qr::threads)
    add_in_turn(const E* products, std::int64_t count, std::int64_t diagonal,
                DeviceMatrix<E> target) {
  const std::int64_t at = std::int64_t{blockIdx.x} * qr::threads + threadIdx.x;
  const std::int64_t row = at % target.rows;
  const std::int64_t column = at / target.rows;
  if (column >= target.columns || row > column + diagonal) {
    return;
  }
  const std::int64_t size = target.rows * target.columns;
  E sum = from_real<E>(0);
  std::int64_t first = 0;
  for (; first + together <= count; first += together) {
    E some[together];
#pragma unroll
    for (int i = 0; i < together; ++i) {
      some[i] = products[at + (first + i) * size];
    }
#pragma unroll
    for (int i = 0; i < together; ++i) {
      sum = sum_of(sum, some[i]);
    }
  }
  for (; first < count; ++first) {
    sum = sum_of(sum, products[at + first * size]);
  }
  target(row, column) = sum_of(target(row, column), sum);
}

}  // namespace

template <class E>
void SmallQrDeviceKernels<E>::add_products(cudaStream_t stream, const E* products,
                                           std::int64_t count, std::int64_t diagonal, Out target) {
  launch(stream, &add_in_turn<E>, divide_up(target.rows() * target.columns(), qr::threads),
         {dim3(qr::threads)}, products, count, diagonal, device(target));
}

#define SHARDSOLVE_INSTANTIATE(E)                                                           \
  template void SmallQrDeviceKernels<E>::add_products(cudaStream_t, const E*, std::int64_t, \
                                                      std::int64_t, Out);

SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<double>)

}  // namespace shardsolve::runtime::cuda
