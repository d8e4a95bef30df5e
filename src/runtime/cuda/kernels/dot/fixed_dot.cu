/// The dot product of runtime/fixed_dot.hpp. Compiled with -fmad=false: what is fused is written
/// so.
#include "runtime/cuda/fixed_dot.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/fixed_dot.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda::dot {
namespace {

// Each leaf has 8 threads, one a lane; a block has the 32 leaves of a subtree.
constexpr int threads_a_block = static_cast<int>(dot_subtree) * dot_lanes;
constexpr int finishing_threads = 1024;

template <class Real, int width>
__device__ DotSum<Real, width> load(const Real* from) {
  DotSum<Real, width> sum{};
  for (int at = 0; at < width; ++at) {
    sum.part[at] = from[at];
  }
  return sum;
}

template <class Real, int width>
__device__ void store(const DotSum<Real, width>& sum, Real* to) {
  for (int at = 0; at < width; ++at) {
    to[at] = sum.part[at];
  }
}

/// Lane 0 gets the sum of the eight lanes of its leaf, which are neighbours in a warp.
template <class Real, int width>
__device__ void add_lanes(DotSum<Real, width>& own) {
#pragma unroll
  for (int distance = dot_lanes / 2; distance > 0; distance /= 2) {
    DotSum<Real, width> other{};
    for (int at = 0; at < width; ++at) {
      other.part[at] = __shfl_xor_sync(0xffffffffU, own.part[at], distance);
    }
    own.add(other);
  }
}

/// A tree over `count` sums in shared memory, a power of two; the first one gets it.
template <class Real, int width>
__device__ void add_tree(DotSum<Real, width>* sums, int count) {
  for (int pairs = count / 2; pairs > 0; pairs /= 2) {
    DotSum<Real, width> sum{};
    if (static_cast<int>(threadIdx.x) < pairs) {
      sum = sums[2 * threadIdx.x];
      sum.add(sums[2 * threadIdx.x + 1]);
    }
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < pairs) {
      sums[threadIdx.x] = sum;
    }
    __syncthreads();
  }
}

/// Rows of a leaf that lie one after the other.
template <class Real, int width>
__device__ DotSum<Real, width> lane_of_rows(const Real* x, const Real* y, std::int64_t count,
                                            int lane) {
  DotSum<Real, width> sum{};
  for (std::int64_t i = lane; i < count; i += dot_lanes) {
    sum.multiply_add(x + width * i, y + width * i);
  }
  return sum;
}

/// Of a leaf that a device has whole lane 0 is its sum, and the others are 0.
template <class Real, int width>
__device__ DotSum<Real, width> lane_of_parts(const DotLayout& layout, const Real* parts,
                                             std::int64_t leaf, int lane) {
  DotSum<Real, width> sum{};
  const std::int64_t first = layout.owner(leaf * dot_leaf);
  if (layout.is_whole(first, leaf)) {
    const std::int64_t at = first * layout.length() + leaf - layout.first_whole_leaf(first);
    return lane == 0 ? load<Real, width>(parts + width * at) : sum;
  }
  for (std::int64_t slot = lane; leaf * dot_leaf + slot < layout.end_of_leaf(leaf);
       slot += dot_lanes) {
    const std::int64_t rank = layout.owner(leaf * dot_leaf + slot);
    const std::int64_t at = layout.window(!layout.begins_within(rank, leaf)) + slot;
    const Real* from = parts + width * (rank * layout.length() + at);
    sum.multiply_add(from, from + width * dot_leaf);
  }
  return sum;
}

/// Block s of an item adds up its subtree s of 32 leaves.
template <class Real, int width, bool of_parts>
__global__ void __launch_bounds__(threads_a_block)
    add_subtrees(DotLayout layout, std::int64_t ranks, std::int64_t subtrees, const Real* x,
                 const Real* y, Real* sums) {
  __shared__ DotSum<Real, width> leaf_sums[dot_subtree];
  const std::int64_t item = blockIdx.x / subtrees;
  const std::int64_t subtree = blockIdx.x % subtrees;
  const int lane = threadIdx.x % dot_lanes;
  const int own = threadIdx.x / dot_lanes;
  const std::int64_t leaf = subtree * dot_subtree + own;
  DotSum<Real, width> sum{};
  if (leaf < layout.leaves()) {
    if constexpr (of_parts) {
      const Real* parts = x + width * item * ranks * layout.length();
      sum = lane_of_parts<Real, width>(layout, parts, leaf, lane);
    } else {
      const std::int64_t row = leaf * dot_leaf;
      const std::int64_t from = width * (item * layout.n + row);
      sum = lane_of_rows<Real, width>(x + from, y + from, layout.end_of_leaf(leaf) - row, lane);
    }
  }
  add_lanes(sum);
  if (lane == 0) {
    leaf_sums[own] = sum;
  }
  __syncthreads();
  add_tree<Real, width>(leaf_sums, dot_subtree);
  if (threadIdx.x == 0) {
    store(leaf_sums[0], sums + width * blockIdx.x);
  }
}

/// One block an item: each thread takes `run` sums, a power of two of them, then the threads' tree.
template <class Real, int width>
__global__ void __launch_bounds__(finishing_threads)
    add_sums(const Real* sums, std::int64_t count, int levels, Real* result) {
  __shared__ DotSum<Real, width> own_sums[finishing_threads];
  const Real* own = sums + width * blockIdx.x * count;
  // Sums that wait for a partner, one a level: as on the CPU.
  DotSum<Real, width> waiting[24];
  const std::int64_t first = std::int64_t{threadIdx.x} << levels;
  for (std::int64_t at = 0; at < (std::int64_t{1} << levels); ++at) {
    DotSum<Real, width> sum{};
    if (first + at < count) {
      sum = load<Real, width>(own + width * (first + at));
    }
    int level = 0;
    for (std::int64_t pairs = at; (pairs & 1) != 0; pairs >>= 1) {
      DotSum<Real, width> left = waiting[level++];
      left.add(sum);
      sum = left;
    }
    waiting[level] = sum;
  }
  own_sums[threadIdx.x] = waiting[levels];
  __syncthreads();
  add_tree<Real, width>(own_sums, finishing_threads);
  if (threadIdx.x == 0) {
    store(own_sums[0], result + width * blockIdx.x);
  }
}

/// 8 threads for each place of a whole leaf, then one for each element of the windows.
template <class Real, int width>
__global__ void __launch_bounds__(threads_a_block)
    write_parts(DotLayout layout, std::int64_t blocks, const std::int32_t* ranks, const Real* x,
                const Real* y, Real* parts) {
  const std::int64_t item = blockIdx.x / blocks;
  const std::int64_t block = blockIdx.x % blocks;
  const std::int64_t rank = ranks[item];
  const std::int64_t begin = layout.begin(rank);
  x += width * item * layout.rows;
  y += width * item * layout.rows;
  parts += width * item * layout.length();
  if (block == blocks - 1) {
    static_assert(threads_a_block == 4 * dot_leaf);
    const bool of_y = threadIdx.x / dot_leaf % 2 != 0;
    const bool at_end = threadIdx.x >= 2 * dot_leaf;
    const std::int64_t leaf = (at_end ? layout.end(rank) : begin) / dot_leaf;
    const std::int64_t row = leaf * dot_leaf + threadIdx.x % dot_leaf;
    const bool is_here = row >= begin && row < layout.end(rank) && !layout.is_whole(rank, leaf) &&
                         layout.begins_within(rank, leaf) != at_end;
    DotSum<Real, width> value{};
    if (is_here) {
      value = load<Real, width>((of_y ? y : x) + width * (row - begin));
    }
    store(value, parts + width * (layout.sums() + threadIdx.x));
    return;
  }
  const int lane = threadIdx.x % dot_lanes;
  const std::int64_t place = block * dot_subtree + threadIdx.x / dot_lanes;
  const std::int64_t leaf = layout.first_whole_leaf(rank) + place;
  DotSum<Real, width> sum{};
  if (leaf < layout.leaves() && layout.is_whole(rank, leaf)) {
    const std::int64_t from = width * (leaf * dot_leaf - begin);
    sum = lane_of_rows<Real, width>(x + from, y + from, layout.end_of_leaf(leaf) - leaf * dot_leaf,
                                    lane);
  }
  add_lanes(sum);
  if (lane == 0 && place < layout.sums()) {
    store(sum, parts + width * place);
  }
}

template <class Real, int width>
void enqueue_typed(cudaStream_t stream, const DotCall& call) {
  const auto* x = static_cast<const Real*>(call.x);
  const auto* y = static_cast<const Real*>(call.y);
  auto* result = static_cast<Real*>(call.result);
  const DotLayout& layout = call.layout;
  if (call.step == DotStep::parts) {
    const std::int64_t blocks = (layout.sums() + dot_subtree - 1) / dot_subtree + 1;
    launch(stream, &write_parts<Real, width>, blocks * call.batch, {dim3(threads_a_block)}, layout,
           blocks, call.rank, x, y, result);
    return;
  }
  const std::int64_t subtrees = call.subtrees();
  Real* const sums = subtrees == 1 ? result : static_cast<Real*>(call.work);
  const auto first = call.step == DotStep::finish ? &add_subtrees<Real, width, true>
                                                  : &add_subtrees<Real, width, false>;
  launch(stream, first, subtrees * call.batch, {dim3(threads_a_block)}, layout, call.ranks,
         subtrees, x, y, sums);
  if (subtrees > 1) {
    int levels = 0;
    while ((std::int64_t{finishing_threads} << levels) < subtrees) {
      ++levels;
    }
    launch(stream, &add_sums<Real, width>, call.batch, {dim3(finishing_threads)}, sums, subtrees,
           levels, result);
  }
}

}  // namespace

void enqueue(cudaStream_t stream, const DotCall& call) {
  if (call.is_double) {
    call.is_complex ? enqueue_typed<double, 2>(stream, call)
                    : enqueue_typed<double, 1>(stream, call);
  } else {
    call.is_complex ? enqueue_typed<float, 2>(stream, call) : enqueue_typed<float, 1>(stream, call);
  }
}

}  // namespace shardsolve::runtime::cuda::dot
