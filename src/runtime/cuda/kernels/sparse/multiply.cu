/// Products with sparse matrices. Compiled with --fmad=false: what is fused is written so.
///
/// A thread has one lane of a row (sparse_row_sum.hpp), neighbours in a warp have the lanes of one
/// row after the other. Where rows are short and follow each other, a warp brings their entries to
/// shared memory first, in the order in which they lie in memory.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/sparse_device_kernels.hpp"
#include "runtime/sparse_row_sum.hpp"

#include <cstdint>
#include <cstdlib>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads_a_block = 256;
/// Entries of a lane that are under way at once.
constexpr int entries_at_once = 4;

template <class E>
struct ProductCall {
  SparseRows<E> a;
  RowChoice chosen;
  const E* x;
  const E* halo;
  E* y;
  const std::int32_t* done;
};

template <class E>
using LaneOf = RowLane<RealPart<E>, parts<E>>;

template <class E>
const __device__ RealPart<E>* parts_of(const E& x) {
  return reinterpret_cast<const RealPart<E>*>(&x);
}

template <bool has_halo, class E>
__device__ E entry_of(const ProductCall<E>& call, std::int32_t column) {
  if constexpr (has_halo) {
    return column < call.a.own ? call.x[column] : call.halo[column - call.a.own];
  } else {
    return call.x[column];
  }
}

/// The first of `lanes` neighbours gets their sum.
template <int lanes, class E>
__device__ void add_lanes(LaneOf<E>& sum) {
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    LaneOf<E> other{};
#pragma unroll
    for (int at = 0; at < parts<E>; ++at) {
      other.part[at] = __shfl_xor_sync(0xffffffffU, sum.part[at], distance);
    }
    sum.add(other);
  }
}

template <class E>
__device__ void store_row(const LaneOf<E>& sum, E* place) {
  if constexpr (parts<E> == 2) {
    *place = {sum.part[0], sum.part[1]};
  } else {
    *place = sum.part[0];
  }
}

template <int lanes, bool has_halo, class E>
__global__ void __launch_bounds__(threads_a_block)
    multiply_rows(const __grid_constant__ ProductCall<E> call) {
  begin_after_last();
  if (call.done != nullptr && *call.done != 0) {
    return;
  }
  const std::int64_t thread = std::int64_t{blockIdx.x} * threads_a_block + threadIdx.x;
  const std::int64_t number = thread / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  LaneOf<E> sum{};
  std::int64_t row = 0;
  if (number < call.chosen.count) {
    row = call.chosen.list == nullptr ? call.chosen.first + number : call.chosen.list[number];
    const std::int64_t end = call.a.row_pointers[row + 1];
    for (std::int64_t k = call.a.row_pointers[row] + lane; k < end; k += entries_at_once * lanes) {
      E values[entries_at_once];
      E factors[entries_at_once];
#pragma unroll
      for (int e = 0; e < entries_at_once; ++e) {
        if (k + e * lanes < end) {
          values[e] = call.a.values[k + e * lanes];
          factors[e] = entry_of<has_halo>(call, call.a.columns[k + e * lanes]);
        }
      }
#pragma unroll
      for (int e = 0; e < entries_at_once; ++e) {
        if (k + e * lanes < end) {
          sum.multiply_add(parts_of(values[e]), parts_of(factors[e]));
        }
      }
    }
  }
  add_lanes<lanes, E>(sum);
  if (lane == 0 && number < call.chosen.count) {
    store_row(sum, call.y + row);
  }
}

/// Entries that a warp brings to shared memory at a time: those of its rows, mostly.
constexpr int entries_a_piece = 128;
constexpr int warps_a_block = threads_a_block / 32;

template <int lanes, bool has_halo, class E>
__global__ void __launch_bounds__(threads_a_block)
    multiply_short_rows(const __grid_constant__ ProductCall<E> call) {
  __shared__ E values_of_warps[warps_a_block][entries_a_piece];
  __shared__ std::int32_t columns_of_warps[warps_a_block][entries_a_piece];
  begin_after_last();
  if (call.done != nullptr && *call.done != 0) {
    return;
  }
  E* const values = values_of_warps[threadIdx.x / 32];
  std::int32_t* const columns = columns_of_warps[threadIdx.x / 32];
  const int thread = static_cast<int>(threadIdx.x) % 32;
  constexpr int rows_a_warp = 32 / lanes;
  const std::int64_t first =
      (std::int64_t{blockIdx.x} * warps_a_block + threadIdx.x / 32) * rows_a_warp;
  const std::int64_t number = first + thread / lanes;
  const bool exists = number < call.chosen.count;
  const std::int64_t row = call.chosen.first + (exists ? number : call.chosen.count - 1);
  const std::int64_t end = call.a.row_pointers[row + 1];
  const std::int64_t begin = exists ? call.a.row_pointers[row] : end;
  const std::int64_t first_entry = __shfl_sync(0xffffffffU, begin, 0);
  const std::int64_t past = __shfl_sync(0xffffffffU, end, 31);
  LaneOf<E> sum{};
  std::int64_t k = begin + thread % lanes;
  for (std::int64_t piece = first_entry; piece < past; piece += entries_a_piece) {
    E loaded[entries_a_piece / 32];
    std::int32_t places[entries_a_piece / 32];
#pragma unroll
    for (int e = 0; e < entries_a_piece / 32; ++e) {
      const std::int64_t at = piece + thread + 32 * e;
      if (at < past) {
        loaded[e] = call.a.values[at];
        places[e] = call.a.columns[at];
      }
    }
    __syncwarp();  // all have used the piece before
#pragma unroll
    for (int e = 0; e < entries_a_piece / 32; ++e) {
      if (piece + thread + 32 * e < past) {
        values[thread + 32 * e] = loaded[e];
        columns[thread + 32 * e] = places[e];
      }
    }
    __syncwarp();
    const std::int64_t stop = end < piece + entries_a_piece ? end : piece + entries_a_piece;
    if (k >= stop) {
      continue;
    }
    for (; k < stop; k += entries_at_once * lanes) {
      E factors[entries_at_once];
#pragma unroll
      for (int e = 0; e < entries_at_once; ++e) {
        if (k + e * lanes < stop) {
          factors[e] = entry_of<has_halo>(call, columns[k + e * lanes - piece]);
        }
      }
#pragma unroll
      for (int e = 0; e < entries_at_once; ++e) {
        if (k + e * lanes < stop) {
          sum.multiply_add(parts_of(values[k + e * lanes - piece]), parts_of(factors[e]));
        }
      }
    }
    k -= (k - stop) / lanes * lanes;  // the next one of this lane
  }
  add_lanes<lanes, E>(sum);
  if (exists && thread % lanes == 0) {
    store_row(sum, call.y + row);
  }
}

template <class E>
__global__ void __launch_bounds__(threads_a_block)
    pack_entries(const std::int32_t* places, std::int64_t count, const E* x, E* packed) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_a_block + threadIdx.x;
  if (i < count) {
    packed[i] = x[places[i]];
  }
}

template <int lanes, class E>
void multiply_in_lanes(cudaStream_t stream, const ProductCall<E>& call) {
  const std::int64_t blocks = divide_up(call.chosen.count * lanes, threads_a_block);
  if constexpr (lanes <= 8) {
    if (call.chosen.list == nullptr && getenv("SHARDSOLVE_DIRECT") == nullptr) {
      launch_early(stream,
                   call.halo == nullptr ? &multiply_short_rows<lanes, false, E>
                                        : &multiply_short_rows<lanes, true, E>,
                   blocks, {dim3(threads_a_block)}, call);
      return;
    }
  }
  launch_early(
      stream,
      call.halo == nullptr ? &multiply_rows<lanes, false, E> : &multiply_rows<lanes, true, E>,
      blocks, {dim3(threads_a_block)}, call);
}

}  // namespace

template <class E>
void SparseDeviceKernels<E>::pack(cudaStream_t stream, const std::int32_t* places,
                                  std::int64_t count, const E* x, E* packed) {
  launch(stream, &pack_entries<E>, divide_up(count, threads_a_block), {dim3(threads_a_block)},
         places, count, x, packed);
}

template <class E>
void SparseDeviceKernels<E>::multiply(cudaStream_t stream, const SparseRows<E>& a,
                                      const RowChoice& chosen, const E* x, const E* halo, E* y,
                                      const std::int32_t* done) {
  const ProductCall<E> call{a, chosen, x, halo, y, done};
  switch (a.lanes) {
    case 1:
      return multiply_in_lanes<1>(stream, call);
    case 2:
      return multiply_in_lanes<2>(stream, call);
    case 4:
      return multiply_in_lanes<4>(stream, call);
    case 8:
      return multiply_in_lanes<8>(stream, call);
    case 16:
      return multiply_in_lanes<16>(stream, call);
    default:
      return multiply_in_lanes<32>(stream, call);
  }
}

#define SHARDSOLVE_INSTANTIATE(E)                                                             \
  template void SparseDeviceKernels<E>::pack(cudaStream_t, const std::int32_t*, std::int64_t, \
                                             const E*, E*);                                   \
  template void SparseDeviceKernels<E>::multiply(cudaStream_t, const SparseRows<E>&,          \
                                                 const RowChoice&, const E*, const E*, E*,    \
                                                 const std::int32_t*);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
