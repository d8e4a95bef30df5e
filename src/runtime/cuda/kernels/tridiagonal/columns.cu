/// What a merge does with columns. Compiled with --fmad=false: rotated columns have the bits of the
/// CPU.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/tridiagonal_device_kernels.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int rotating_threads = 128;
constexpr int copying_threads = 256;
constexpr int rows_a_thread = 4;
constexpr int rows_a_block = copying_threads * rows_a_thread;

/// A thread has one row, and takes the rotations in turn.
template <class Real>
__global__ void __launch_bounds__(rotating_threads)
    rotate(const ColumnRotation<Real>* __restrict__ rotations, std::int64_t count,
           DeviceMatrix<Real> z) {
  const std::int64_t i = std::int64_t{blockIdx.x} * rotating_threads + threadIdx.x;
  if (i >= z.rows) {
    return;
  }
  for (std::int64_t r = 0; r < count; ++r) {
    const ColumnRotation<Real> rotation = rotations[r];
    const Real x = z(i, rotation.x);
    const Real y = z(i, rotation.y);
    z(i, rotation.x) = rotation.c * x + rotation.s * y;
    z(i, rotation.y) = rotation.c * y - rotation.s * x;
  }
}

template <class Real>
__global__ void __launch_bounds__(copying_threads)
    copy(DeviceMatrix<const Real> source, const std::int64_t* from, DeviceMatrix<Real> target,
         const std::int64_t* to, std::int64_t chunks) {
  const std::int64_t j = blockIdx.x / chunks;
  const std::int64_t first = blockIdx.x % chunks * rows_a_block + threadIdx.x;
  const std::int64_t source_column = from == nullptr ? j : from[j];
  const std::int64_t target_column = to == nullptr ? j : to[j];
#pragma unroll
  for (int e = 0; e < rows_a_thread; ++e) {
    const std::int64_t i = first + e * copying_threads;
    if (i < source.rows) {
      target(i, target_column) = source(i, source_column);
    }
  }
}

}  // namespace

template <class Real>
void TridiagonalDeviceKernels<Real>::rotate_columns(cudaStream_t stream,
                                                    const ColumnRotation<Real>* rotations,
                                                    std::int64_t count, Out z) {
  launch(stream, &rotate<Real>, divide_up(z.rows(), rotating_threads), {dim3(rotating_threads)},
         rotations, count, device(z));
}

template <class Real>
void TridiagonalDeviceKernels<Real>::copy_columns(cudaStream_t stream, std::int64_t count,
                                                  In source, const std::int64_t* from, Out target,
                                                  const std::int64_t* to) {
  const std::int64_t chunks = divide_up(source.rows(), rows_a_block);
  launch(stream, &copy<Real>, chunks * count, {dim3(copying_threads)}, device(source), from,
         device(target), to, chunks);
}

#define SHARDSOLVE_INSTANTIATE(Real)                                 \
  template void TridiagonalDeviceKernels<Real>::rotate_columns(      \
      cudaStream_t, const ColumnRotation<Real>*, std::int64_t, Out); \
  template void TridiagonalDeviceKernels<Real>::copy_columns(        \
      cudaStream_t, std::int64_t, In, const std::int64_t*, Out, const std::int64_t*);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
