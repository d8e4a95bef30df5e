/// Columns of what fronts leave, between a matrix and the memory that travels: a block of threads
/// for each.
#include "runtime/cuda/front_device_kernels.hpp"
#include "runtime/cuda/kernels/launch.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads = 256;

template <bool packs>
__global__ void __launch_bounds__(threads) move_columns(const __grid_constant__ ColumnMove move) {
  const std::int64_t number = blockIdx.x;
  double* const column = move.matrix + move.places[number] * move.stride;
  double* const packed = move.packed + move.begin[number];
  for (std::int64_t i = move.columns[number] + static_cast<std::int64_t>(threadIdx.x);
       i < move.rows_count; i += threads) {
    if constexpr (packs) {
      packed[i] = column[move.rows[i]];
    } else {
      column[move.rows[i]] += packed[i];
    }
  }
}

}  // namespace

void FrontDeviceKernels::pack_columns(cudaStream_t stream, const ColumnMove& move) {
  launch(stream, &move_columns<true>, move.count, {dim3(threads)}, move);
}

void FrontDeviceKernels::add_columns(cudaStream_t stream, const ColumnMove& move) {
  launch(stream, &move_columns<false>, move.count, {dim3(threads)}, move);
}

}  // namespace shardsolve::runtime::cuda
