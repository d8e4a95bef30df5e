/// The end of a reduction: the trees over the parts of all ranks, in one block of threads. Compiled
/// with --fmad=false: what is fused is written so.
#pragma once

#include "runtime/cuda/kernels/krylov/numbers.cuh"
#include "runtime/krylov/program.hpp"
#include "runtime/krylov/step.hpp"
#include "runtime/krylov/sum_layout.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda::krylov_finish {

using krylov::Number;
using krylov::Problem;
using krylov::State;
using krylov::StateRoom;
using krylov::SumLayout;
using krylov::SumPart;
using krylov::SumTable;

/// Blocks of the layout that one warp adds up for one sum.
constexpr int blocks_a_warp = 512;
/// Warps that a sum may take.
constexpr int max_of_a_sum = 4;
static_assert(SumLayout::max_blocks <= max_of_a_sum * blocks_a_warp);
/// Sums that are handed to the step in shared memory; more go through the state's room.
constexpr int sums_at_hand = 64;

/// Reads sums of blocks of the layout from the parts of several ranks. All threads of a warp
/// together.
template <class E>
class BlockSums {
 public:
  using Sum = SumOf<E>;

  __device__ BlockSums(const SumTable<E>& table, int slot) : table_(table), slot_(slot) {}

  /// Each lane gets that of its own block; {} if there is none of this number. Apart, as it would
  /// be compiled once for each of the loads that are under way at once.
  __device__ __attribute__((noinline)) Sum of(std::int64_t block) const {
    Sum sum{};
    bool is_whole = true;
    if (block < table_.layout.blocks()) {
      const std::int64_t rank = owner(block * table_.layout.block_rows());
      const SumPart shape = table_.layout.part(rank);
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

/// All lanes get the tree over what the lanes have of each of 2^k loads, load by load.
template <class Sum, int loads>
__device__ Sum add_loads(Sum (&sums)[loads]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // The lanes' tree of each load: of two partners one goes on with one half of the loads, the other
  // with the other half.
#pragma unroll
  for (int half = loads / 2, distance = 1; half > 0; half /= 2, distance *= 2) {
    const bool has_upper = (lane & distance) != 0;
#pragma unroll
    for (int load = 0; load < half; ++load) {
      Sum given = has_upper ? sums[load] : sums[load + half];
      Sum kept = has_upper ? sums[load + half] : sums[load];
#pragma unroll
      for (int at = 0; at < static_cast<int>(sizeof(given.part) / sizeof(given.part[0])); ++at) {
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

/// All lanes get the tree over 32 * loads blocks from `first` on, as far as there are any.
template <int loads, class E>
__device__ SumOf<E> add_some_blocks(const SumTable<E>& table, int slot, std::int64_t first) {
  const std::int64_t count = table.layout.blocks();
  const std::int64_t mine = first + static_cast<int>(threadIdx.x) % 32;
  SumOf<E> sums[loads];
  if (table.layout.ranks == 1) {
    // What is not there is read elsewhere, so that no load waits for a comparison.
    const E* const parts = table.parts + slot * count;
#pragma unroll
    for (int load = 0; load < loads; ++load) {
      const std::int64_t block = mine + 32 * load;
      const bool exists = block < count;
      sums[load] = sum_from(parts + (exists ? block : 0));
      sums[load] = exists ? sums[load] : SumOf<E>{};
    }
  } else {
    const BlockSums<E> blocks(table, slot);
#pragma unroll
    for (int load = 0; load < loads; ++load) {
      sums[load] = first + 32 * load < count ? blocks.of(mine + 32 * load) : SumOf<E>{};
    }
  }
  return add_loads(sums);
}

/// All lanes get the tree over the blocks from `first` on that are one warp's.
template <class E>
__device__ SumOf<E> add_blocks(const SumTable<E>& table, int slot, std::int64_t first) {
  const std::int64_t count = table.layout.blocks();
  return count <= 32       ? add_some_blocks<1>(table, slot, first)
         : count <= 32 * 4 ? add_some_blocks<4>(table, slot, first)
                           : add_some_blocks<blocks_a_warp / 32>(table, slot, first);
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
struct FinishShared {
  SumOf<E>* of_warps;
  Number* sums;
};

/// Sums number `from` to `to`, `team` warps each, of the first `warps` ones; all threads.
template <class E>
__device__ void add_slots(const SumTable<E>& table, const FinishShared<E>& shared,
                          const StateRoom& room, int team, int warps, int from, int to) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int teams = warps / team;
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

/// The step of a method, by one thread. Apart, so that compilers make its code once for a file and
/// not once for each kernel and dtype.
static __device__ __attribute__((noinline)) void take_scalar_step(const Problem& problem,
                                                                  State& state,
                                                                  const StateRoom& room,
                                                                  int reduction, bool stop,
                                                                  const Number* sums) {
  krylov::step(problem, state, room, reduction, stop, sums);
}

/// Warps for one sum, a power of two.
inline int team_of(const SumLayout& layout) {
  int team = 1;
  while (team * blocks_a_warp < layout.blocks()) {
    team *= 2;
  }
  return team;
}

}  // namespace shardsolve::runtime::cuda::krylov_finish
