/// Residuals and their derivatives, which a function gave point by point, as rows; and how large
/// numbers are. Threads take number after number, and each warp tells what it has seen.
#include "runtime/cuda/box_device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/warp_sums.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 256;
static_assert(SeenByWarps::warps_of_block * 32 == threads);

__device__ std::int64_t first_number() {
  return std::int64_t{blockIdx.x} * threads + static_cast<std::int64_t>(threadIdx.x);
}

/// Where a warp puts what it has seen.
__device__ std::int64_t place_of_warp() {
  return std::int64_t{blockIdx.x} * SeenByWarps::warps_of_block +
         static_cast<std::int64_t>(threadIdx.x) / 32;
}

__global__ void __launch_bounds__(threads)
    make_rows_of(const __grid_constant__ PointwisePart part, std::int64_t step,
                 std::int64_t* nonfinite) {
  std::int64_t first = part.points;
  const auto see = [&](double value, std::int64_t point) {
    if (!isfinite(value) && point < first) {
      first = point;
    }
  };
  const std::int64_t rows = part.points * part.equations;
  for (std::int64_t i = first_number(); i < rows; i += step) {
    const std::int64_t point = i / part.equations;
    const double target = part.targets == nullptr ? 0.0 : part.targets[i];
    const double value = part.scale * (part.r[i] - target);
    part.residual[i % part.equations * part.points + point] = value;
    see(value, point);
  }
  const std::int64_t slopes = part.a == nullptr ? 0 : rows * part.jets;
  for (std::int64_t i = first_number(); i < slopes; i += step) {
    const double value = part.scale * part.a[i];
    part.derivatives[i] = value;
    see(value, i / (part.equations * part.jets));
  }
  const std::int64_t others = part.b == nullptr ? 0 : rows * part.coefficients;
  for (std::int64_t i = first_number(); i < others; i += step) {
    const double value = part.scale * part.b[i];
    const std::int64_t row = i / part.coefficients;
    const std::int64_t point = row / part.equations;
    part.by_coefficients[(i % part.coefficients * part.equations + row % part.equations) *
                             part.points +
                         point] = value;
    see(value, point);
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const std::int64_t other = from_partner(static_cast<long long>(first), distance);
    first = other < first ? other : first;
  }
  if (threadIdx.x % 32 == 0) {
    nonfinite[place_of_warp()] = first;
  }
}

/// The larger one, NaN if one is.
__device__ double larger(double x, double y) { return isnan(x) || y <= x ? x : y; }

__global__ void __launch_bounds__(threads)
    find_largest(const double* a, const double* b, std::int64_t count, std::int64_t step,
                 double* largest) {
  double size = 0.0;
  double difference = 0.0;
  for (std::int64_t i = first_number(); i < count; i += step) {
    size = larger(size, fabs(a[i]));
    if (b != nullptr) {
      difference = larger(difference, fabs(a[i] - b[i]));
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    size = larger(size, from_partner(size, distance));
    difference = larger(difference, from_partner(difference, distance));
  }
  if (threadIdx.x % 32 == 0) {
    largest[2 * place_of_warp()] = size;
    largest[2 * place_of_warp() + 1] = difference;
  }
}

}  // namespace

void BoxDeviceKernels::pointwise_rows(cudaStream_t stream, const PointwisePart& part,
                                      std::int64_t* nonfinite) {
  const std::int64_t blocks = SeenByWarps::blocks(part.numbers());
  launch(stream, &make_rows_of, blocks, {dim3(threads)}, part, blocks * threads, nonfinite);
}

void BoxDeviceKernels::largest(cudaStream_t stream, const double* a, const double* b,
                               std::int64_t count, double* largest) {
  const std::int64_t blocks = SeenByWarps::blocks(count);
  launch(stream, &find_largest, blocks, {dim3(threads)}, a, b, count, blocks * threads, largest);
}

}  // namespace shardsolve::runtime::cuda
