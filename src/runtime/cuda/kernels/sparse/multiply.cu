/// Products with sparse matrices. Compiled with --fmad=false: what is fused is written so.
///
/// A thread has one lane of a row (sparse_row_sum.hpp), neighbours in a warp have the lanes of one
/// row after the other.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/sparse_device_kernels.hpp"
#include "runtime/product_flag.hpp"
#include "runtime/sparse_row_sum.hpp"

#include <cstdint>

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
  const std::int32_t* rank;
};

/// Rows in front of those chosen that belong to other ranks, and how many there are from there on.
struct RankRows {
  std::int64_t before;
  std::int64_t count;
};
template <class E>
__device__ RankRows rows_of_rank(const ProductCall<E>& call) {
  if (call.rank == nullptr) {
    return {0, call.chosen.count};
  }
  const std::int64_t before = *call.rank * call.chosen.count;
  const std::int64_t left = call.a.rows - before;
  return {before, max(min(left, call.chosen.count), std::int64_t{0})};
}

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
template <int lanes, class Lane>
__device__ void add_lanes(Lane& sum) {
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    Lane other{};
#pragma unroll
    for (int at = 0; at < Lane::count; ++at) {
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

/// The lanes of a row that begin with entry k, in turn.
template <int lanes, bool has_halo, class E>
__device__ LaneOf<E> sum_row(const ProductCall<E>& call, std::int64_t k, std::int64_t end) {
  LaneOf<E> sum{};
  for (; k < end; k += entries_at_once * lanes) {
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
  add_lanes<lanes>(sum);
  return sum;
}

/// Likewise by lanes of another kind: a few products of a solve. One entry at a time, so that the
/// kernel needs no more registers for it. The first lane has the result.
template <template <class, int> class Lane, int lanes, bool has_halo, class E>
__device__ LaneOf<E> sum_row_by(const ProductCall<E>& call, std::int64_t k, std::int64_t end) {
  Lane<RealPart<E>, parts<E>> sum{};
  const std::int64_t entries = end - k;
#pragma unroll 1
  for (; k < end; k += lanes) {
    const E value = call.a.values[k];
    const E factor = entry_of<has_halo>(call, call.a.columns[k]);
    sum.multiply_add(parts_of(value), parts_of(factor));
  }
  add_lanes<lanes>(sum);
  return sum.result(entries);
}

template <int lanes, bool has_halo, class E>
__global__ void __launch_bounds__(threads_a_block)
    multiply_rows(const __grid_constant__ ProductCall<E> call) {
  begin_after_last();
  const std::int32_t flag = call.done == nullptr ? std::int32_t{usual_product} : *call.done;
  if (flag > usual_product) {
    return;
  }
  const std::int64_t thread = std::int64_t{blockIdx.x} * threads_a_block + threadIdx.x;
  const std::int64_t number = thread / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const RankRows mine = rows_of_rank(call);
  std::int64_t row = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  if (number < mine.count) {
    row = call.chosen.list == nullptr ? mine.before + call.chosen.first + number
                                      : call.chosen.list[number];
    begin = call.a.row_pointers[row] + lane;
    end = call.a.row_pointers[row + 1];
  }
  // All threads of a warp, as lanes are neighbours there.
  const LaneOf<E> sum =
      flag == twofold_product    ? sum_row_by<TwofoldRowLane, lanes, has_halo>(call, begin, end)
      : flag == product_rounding ? sum_row_by<ModulusRowLane, lanes, has_halo>(call, begin, end)
                                 : sum_row<lanes, has_halo>(call, begin, end);
  if (lane == 0 && number < mine.count) {
    store_row(sum, call.y + row - mine.before);
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
                                      const std::int32_t* done, const std::int32_t* rank) {
  const ProductCall<E> call{a, chosen, x, halo, y, done, rank};
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
                                                 const std::int32_t*, const std::int32_t*);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
