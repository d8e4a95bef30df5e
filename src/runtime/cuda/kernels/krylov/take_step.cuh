/// The end of a reduction of the only rank and its step, as part of a kernel. Compiled with
/// --fmad=false: what is fused is written so.
#pragma once

#include "runtime/cuda/kernels/krylov/finish.cuh"
#include "runtime/cuda/kernels/krylov/run.cuh"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda::krylov_finish {

constexpr int warps_of_step = krylov_run::warps_a_block;

/// The same sums with larger blocks, nodes of the same tree: those of a chunk at least, and so few
/// that a warp adds them up. For the kernel that makes all parts and their sums.
template <class E>
SumTable<E> with_large_blocks(SumTable<E> table) {
  std::int64_t& leaves = table.layout.block_leaves;
  leaves = std::max(leaves, std::int64_t{krylov_run::leaves_at_once});
  while (table.layout.blocks() > blocks_a_warp) {
    leaves *= 2;
  }
  return table;
}
/// `makes_sum(slot)`: whether the kernel makes it.
template <class E, class MakesSum>
bool makes_all_sums(const SumTable<E>& table, const MakesSum& makes_sum) {
  for (int slot = 0; slot < table.slots; ++slot) {
    if (!makes_sum(slot)) {
      return false;
    }
  }
  return true;
}

template <class E>
struct StepShared {
  double at_hand[2 * sums_at_hand];
  int stop;
};

/// By all threads of a block of krylov_run::threads_a_block: the sums of the reduction, and its
/// step in `state`, which is shared memory. A sum has at most blocks_a_warp blocks.
template <class E>
__device__ void take_step(const Problem& problem, const SumTable<E>& table, const StateRoom& room,
                          int reduction, State& state, StepShared<E>& shared) {
  Number* const sums =
      table.slots <= sums_at_hand ? reinterpret_cast<Number*>(shared.at_hand) : room.sums;
  if (threadIdx.x / 32 == warps_of_step - 1) {
    const bool asked = stop_asked(table);
    if (threadIdx.x % 32 == 0) {
      shared.stop = asked ? 1 : 0;
    }
  }
  const int count = static_cast<int>(min(std::int64_t{table.slots}, table.fixed + state.columns));
  for (int slot = static_cast<int>(threadIdx.x) / 32; slot < count; slot += warps_of_step) {
    const SumOf<E> sum = add_blocks(table, slot, 0);
    if (threadIdx.x % 32 == 0) {
      sums[slot] = number_of<E>(sum);
      room.sums[slot] = sums[slot];
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    take_scalar_step(problem, state, room, reduction, shared.stop != 0, sums);
  }
  __syncthreads();
}

}  // namespace shardsolve::runtime::cuda::krylov_finish
