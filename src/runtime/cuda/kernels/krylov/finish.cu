/// The end of a reduction: the trees over the parts of all ranks, and the step. One block of
/// threads. Compiled with --fmad=false: what is fused is written so.
#include "runtime/cuda/kernels/krylov/numbers.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/krylov_device_kernels.hpp"
#include "runtime/krylov/step.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

using krylov::Number;
using krylov::Problem;
using krylov::State;
using krylov::StateRoom;
using krylov::SumLayout;
using krylov::SumPart;
using krylov::SumTable;

/// Warps that add up at the same time.
constexpr int most_adders = 16;
constexpr int most_threads = 32 * (most_adders + 1);
/// Blocks of the layout that one warp adds up for one sum.
constexpr int blocks_a_warp = 512;
static_assert(SumLayout::most_blocks <= most_adders * blocks_a_warp);
/// Sums that are handed to the step in shared memory; more go through the state's room.
constexpr int sums_at_hand = 64;

/// Reads sums of blocks of the layout from the parts of all ranks. All threads of a warp together.
template <class E>
class BlockSums {
 public:
  using Sum = SumOf<E>;

  __device__ BlockSums(const SumTable<E>& table, int slot) : table_(table), slot_(slot) {}

  /// Each lane gets that of its own block; {} if there is none of this number.
  __device__ Sum of(std::int64_t block) const {
    const SumLayout& layout = table_.layout;
    const bool exists = block < layout.blocks();
    if (layout.ranks == 1) {
      return exists ? sum_from(table_.parts + slot_ * layout.blocks() + block) : Sum{};
    }
    Sum sum{};
    bool is_whole = true;
    if (exists) {
      const std::int64_t rank = owner(block * layout.block_rows());
      const SumPart shape = layout.part(rank);
      is_whole = shape.has_block(block);
      if (is_whole) {
        sum = sum_from(at(rank, shape, shape.at_block(block)));
      }
    }
    // What a boundary cuts, one after the other.
    for (unsigned cut = __ballot_sync(0xffffffffU, !is_whole); cut != 0; cut &= cut - 1) {
      const int lane = __ffs(static_cast<int>(cut)) - 1;
      const Sum of_leaves = add_leaves(from_lane(block, lane));
      if (static_cast<int>(threadIdx.x) % 32 == lane) {
        sum = of_leaves;
      }
    }
    return sum;
  }

 private:
  static __device__ std::int64_t from_lane(std::int64_t value, int lane) {
    return __shfl_sync(0xffffffffU, value, lane);
  }

  __device__ std::int64_t owner(std::int64_t row) const {
    std::int64_t low = 0;  // the last rank that begins at the row or before it
    std::int64_t past = table_.layout.ranks;
    while (low + 1 < past) {
      const std::int64_t middle = (low + past) / 2;
      if (table_.layout.boundaries[middle] <= row) {
        low = middle;
      } else {
        past = middle;
      }
    }
    return low;
  }
  const __device__ E* at(std::int64_t rank, const SumPart& shape, std::int64_t place) const {
    return table_.parts + table_.offsets[rank] + slot_ * shape.length() + place;
  }

  /// Of a block that no rank has whole.
  __device__ Sum add_leaves(std::int64_t block) const {
    const SumLayout& layout = table_.layout;
    SumTree<RealPart<E>, parts<E>> tree;
    const std::int64_t first = block * layout.block_leaves;
    const std::int64_t end = min(first + layout.block_leaves, layout.leaves());
    // The tree wants a power of two; nothing is added where there are no leaves.
    for (std::int64_t chunk = first; chunk < first + layout.block_leaves; chunk += 32) {
      const std::int64_t leaf = chunk + threadIdx.x % 32;
      Sum sum{};
      bool is_whole = true;
      if (leaf < end) {
        const std::int64_t rank = owner(leaf * dot_leaf);
        const SumPart shape = layout.part(rank);
        is_whole = shape.has_leaf(leaf);
        if (is_whole) {
          sum = sum_from(at(rank, shape, shape.at_leaf(leaf, layout.block_leaves)));
        }
      }
      for (unsigned cut = __ballot_sync(0xffffffffU, !is_whole); cut != 0; cut &= cut - 1) {
        const int lane = __ffs(static_cast<int>(cut)) - 1;
        const Sum of_rows = add_rows(from_lane(leaf, lane));
        if (static_cast<int>(threadIdx.x) % 32 == lane) {
          sum = of_rows;
        }
      }
      add_warp(sum);
      tree.push(sum);
    }
    return tree.total();
  }

  /// Of a leaf that no rank has whole. Every eight lanes make it.
  __device__ Sum add_rows(std::int64_t leaf) const {
    Sum sum{};
    const std::int64_t end = min((leaf + 1) * dot_leaf, table_.layout.n);
    for (std::int64_t row = leaf * dot_leaf + threadIdx.x % dot_lanes; row < end;
         row += dot_lanes) {
      const std::int64_t rank = owner(row);
      const SumPart shape = table_.layout.part(rank);
      const E* const place = at(rank, shape, shape.at_row(row));
      const E x = place[0];
      const E y = place[shape.loose_rows()];
      sum.multiply_add(reals(x), reals(y));
    }
    add_lanes_of_leaf(sum);
    return sum;
  }

  const SumTable<E>& table_;
  int slot_;
};

/// All lanes get the tree over the blocks from `first` on that are one warp's.
template <class E>
__device__ SumOf<E> add_blocks(const SumTable<E>& table, int slot, std::int64_t first) {
  constexpr int loads = blocks_a_warp / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const BlockSums<E> blocks(table, slot);
  const std::int64_t count = table.layout.blocks();
  if (count <= 32) {
    SumOf<E> sum = blocks.of(first + lane);
    add_warp(sum);
    return sum;
  }
  SumOf<E> sums[loads];
#pragma unroll
  for (int load = 0; load < loads; ++load) {
    const std::int64_t block = first + 32 * load;
    sums[load] = block < count ? blocks.of(block + lane) : SumOf<E>{};
  }
  // The lanes' tree of each load: of two partners one goes on with one half of the loads, the other
  // with the other half.
#pragma unroll
  for (int half = loads / 2, distance = 1; half > 0; half /= 2, distance *= 2) {
    const bool has_upper = (lane & distance) != 0;
#pragma unroll
    for (int load = 0; load < half; ++load) {
      SumOf<E> given = has_upper ? sums[load] : sums[load + half];
      SumOf<E> kept = has_upper ? sums[load + half] : sums[load];
#pragma unroll
      for (int at = 0; at < parts<E>; ++at) {
        given.part[at] = __shfl_xor_sync(0xffffffffU, given.part[at], distance);
      }
      kept.add(given);
      sums[load] = kept;
    }
  }
#pragma unroll
  for (int distance = loads; distance < 32; distance *= 2) {
    add_partner(sums[0], distance);
  }
  // Then the tree over the loads: the number of a lane's has the bits of the lane's in reverse.
#pragma unroll
  for (int distance = loads / 2; distance > 0; distance /= 2) {
    add_partner(sums[0], distance);
  }
  return sums[0];
}

template <class E>
__device__ Number number_of(const SumOf<E>& sum) {
  Number number;
  number.re = static_cast<double>(sum.part[0]);
  if constexpr (parts<E> == 2) {
    number.im = static_cast<double>(sum.part[1]);
  }
  return number;
}

/// What the warps of the block share.
template <class E>
struct Shared {
  SumOf<E>* of_warps;
  Number* sums;
};

/// Sums number `from` to `to`, `team` warps each, of all warps but the last; all threads.
template <class E>
__device__ void add_slots(const SumTable<E>& table, const Shared<E>& shared, const StateRoom& room,
                          int team, int from, int to) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int teams = (static_cast<int>(blockDim.x) / 32 - 1) / team;
  for (int first = from; first < to; first += teams) {
    const int slot = first + warp / team;
    if (warp < teams * team && slot < to) {
      const SumOf<E> sum = add_blocks(table, slot, std::int64_t{warp % team} * blocks_a_warp);
      if (threadIdx.x % 32 == 0) {
        shared.of_warps[warp] = sum;
      }
    }
    __syncthreads();
    const int mine = first + static_cast<int>(threadIdx.x);
    if (static_cast<int>(threadIdx.x) < teams && mine < to) {
      SumOf<E>* const all = shared.of_warps + static_cast<int>(threadIdx.x) * team;
      for (int together = 2; together <= team; together *= 2) {
        for (int w = 0; w < team; w += together) {
          all[w].add(all[w + together / 2]);
        }
      }
      shared.sums[mine] = number_of<E>(all[0]);
      room.sums[mine] = shared.sums[mine];
    }
    __syncthreads();
  }
}

/// Whether a rank was asked to stop; one warp.
template <class E>
__device__ bool stop_asked(const SumTable<E>& table) {
  bool asked = false;
  for (std::int64_t r = threadIdx.x % 32; r < table.layout.ranks; r += 32) {
    const E last = table.parts[table.offsets[r + 1] - 1];
    for (int at = 0; at < parts<E>; ++at) {
      asked = asked || reals(last)[at] != 0;
    }
  }
  return __ballot_sync(0xffffffffU, asked) != 0;
}

template <class E>
struct FinishCall {
  Problem problem;
  SumTable<E> table;
  State* state;
  StateRoom room;
  std::int32_t reduction;
  std::int32_t team;  ///< warps for one sum, a power of two
};

/// The last warp brings the state while the others add up.
template <class E>
__global__ void __launch_bounds__(most_threads, 1)
    finish_reduction(const __grid_constant__ FinishCall<E> given) {
  __shared__ std::int64_t call_copy[Words<FinishCall<E>>::count];
  __shared__ std::int64_t state_copy[Words<State>::count];
  __shared__ SumOf<E> of_warps[most_adders];
  __shared__ double at_hand[2 * sums_at_hand];
  __shared__ int stop;
  copy_words(call_copy, words_of(given), Words<FinishCall<E>>::count, threadIdx.x, blockDim.x);
  __syncthreads();
  const FinishCall<E>& call = *reinterpret_cast<const FinishCall<E>*>(call_copy);
  const SumTable<E>& table = call.table;
  const StateRoom& room = call.room;
  const int team = call.team;
  Number* const sums = table.slots <= sums_at_hand ? reinterpret_cast<Number*>(at_hand) : room.sums;
  const Shared<E> shared{of_warps, sums};
  begin_after_last();
  if (threadIdx.x / 32 == blockDim.x / 32 - 1) {
    copy_words(state_copy, reinterpret_cast<const std::int64_t*>(call.state), Words<State>::count,
               threadIdx.x % 32, 32);
    const bool asked = stop_asked(table);
    if (threadIdx.x % 32 == 0) {
      stop = asked ? 1 : 0;
    }
  }
  State& own = *reinterpret_cast<State*>(state_copy);
  int from = 0;
  int to = min(table.fixed, table.slots);
  // How many columns there are the state says, which is there after the first sums.
#pragma unroll 1
  for (int part = 0; part < 2; ++part) {
    add_slots(table, shared, room, team, from, to);
    if (part == 0) {
      __syncthreads();
      if (own.done != 0) {
        return;
      }
      from = to;
      to = static_cast<int>(min(std::int64_t{table.slots}, table.fixed + own.columns));
    }
  }
  __syncthreads();  // all have read the state
  if (threadIdx.x == 0) {
    krylov::step(call.problem, own, room, call.reduction, stop != 0, sums);
  }
  __syncthreads();
  copy_words(reinterpret_cast<std::int64_t*>(call.state), state_copy, Words<State>::count,
             threadIdx.x, blockDim.x);
}

}  // namespace

template <class E>
void KrylovDeviceKernels<E>::finish(cudaStream_t stream, const Problem& problem, int reduction,
                                    const SumTable<E>& sums, State* state, const StateRoom& room) {
  int team = 1;
  while (team * blocks_a_warp < sums.layout.blocks()) {
    team *= 2;
  }
  const int teams = std::clamp(sums.slots, 1, most_adders / team);
  launch_early(stream, &finish_reduction<E>, 1,
               {dim3(static_cast<unsigned>(32 * (team * teams + 1)))},
               FinishCall<E>{problem, sums, state, room, reduction, team});
}

#define SHARDSOLVE_INSTANTIATE(E)                                                 \
  template void KrylovDeviceKernels<E>::finish(cudaStream_t, const Problem&, int, \
                                               const SumTable<E>&, State*, const StateRoom&);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
