// The windows of a group of sweeps as sliding_windows.cu takes them: see sliding_windows.cuh.
#include "runtime/cuda/band_device_kernels.hpp"
#include "runtime/cuda/kernels/band/sliding_windows.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"

#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda {
namespace {

using namespace sliding;

/// Where in a factor a number is: each lane reads two pairs. See tensor_core.cuh.
struct InFactor {
  int row;     ///< of 16
  int column;  ///< of 8
};
__device__ InFactor in_factor(int place) {
  const int pair = place / (2 * lanes);
  const int lane = place / 2 % lanes;
  return {8 * pair + lane % 4 * 2 + place % 2, lane / 4};
}

constexpr int threads = 256;
static_assert(quarter * quarter <= threads);

struct Memory {
  double v[quarter][bandwidth + 1];  ///< by reflectors
  double t[quarter][quarter + 1];
};

/// A quarter of a window a block.
__global__ void __launch_bounds__(threads)
    pack_windows(DeviceMatrix<const double> reflectors, double* v, double* vt) {
  auto& shared = dynamic_shared<Memory>();
  const auto thread = static_cast<int>(threadIdx.x);
  const std::int64_t number = blockIdx.x / quarters;
  const int part = static_cast<int>(blockIdx.x) % quarters;
  const std::int64_t first = number * group + part * quarter;
  for (int at = thread; at < quarter * bandwidth; at += threads) {
    const int j = at / bandwidth;
    const int i = at % bandwidth;
    shared.v[j][i] = reflectors(1 + i, first + j);
  }
  __syncthreads();
  // V^T V above the diagonal
  const int i = thread / quarter;
  const int j = thread % quarter;
  if (i < j) {
    double sum = 0;
    for (int row = j; row < i + bandwidth; ++row) {
      sum += shared.v[i][row - i] * shared.v[j][row - j];
    }
    shared.t[i][j] = sum;
  }
  __syncthreads();
  // t_j = -tau_j t (V^T v_j), a row a lane
  if (thread < lanes) {
    for (int column = 0; column < quarter; ++column) {
      const double tau = reflectors(0, first + column);
      double sum = 0;
      for (int l = thread; l < column; ++l) {
        sum += shared.t[thread][l] * shared.t[l][column];
      }
      __syncwarp();
      if (thread <= column) {
        shared.t[thread][column] = thread == column ? tau : -tau * sum;
      }
      __syncwarp();
    }
  }
  __syncthreads();
  const std::int64_t begin = number * window + part * numbers_a_quarter;
  for (int at = thread; at < numbers_a_quarter; at += threads) {
    const int factor = at / numbers_a_factor;
    const InFactor place = in_factor(at % numbers_a_factor);
    {
      const int row = factor % chunks * depth + place.row;
      const int column = factor / chunks * tile + place.column;
      v[begin + at] =
          row > column && row <= column + bandwidth ? shared.v[column][row - 1 - column] : 0.0;
    }
    const int row = factor * tile + place.column;
    double sum = 0;
    for (int l = max(row - bandwidth, 0); l <= min(row - 1, place.row); ++l) {
      sum += shared.v[l][row - 1 - l] * shared.t[l][place.row];
    }
    vt[begin + at] = -sum;
  }
}

}  // namespace

template <class E>
void BandDeviceKernels<E>::sliding_windows(cudaStream_t stream, const Chase& chase,
                                           const SweepGroup& sweeps, In reflectors, Out v, Out vt) {
  if constexpr (std::is_same_v<E, double>) {
    launch(stream, &pack_windows, quarters * chase.tasks(sweeps.first),
           {dim3(threads), sizeof(Memory)}, device(reflectors), v.data(), vt.data());
  }
}

#define SHARDSOLVE_INSTANTIATE(E)                                                 \
  template void BandDeviceKernels<E>::sliding_windows(cudaStream_t, const Chase&, \
                                                      const SweepGroup&, In, Out, Out);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
