/// The end of a reduction of the only rank and its step, as part of a kernel. Compiled with
/// --fmad=false: what is fused is written so.
#pragma once

#include "runtime/cuda/kernels/krylov/finish.cuh"
#include "runtime/cuda/kernels/krylov/run.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda::krylov_finish {

constexpr int warps_of_step = krylov_run::warps_a_block;
static_assert(warps_of_step >= most_of_a_sum);

template <class E>
struct StepShared {
  SumOf<E> of_warps[4 * warps_of_step];
  double at_hand[2 * sums_at_hand];
  int stop;
};

/// By all threads of a block of krylov_run::threads_a_block: the sums of the reduction, and its
/// step in `state`, which is shared memory.
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
  if (table.layout.blocks() <= 32) {
    for (int slot = static_cast<int>(threadIdx.x) / 32; slot < count; slot += warps_of_step) {
      const SumOf<E> sum = add_blocks(table, slot, 0);
      if (threadIdx.x % 32 == 0) {
        sums[slot] = number_of<E>(sum);
        room.sums[slot] = sums[slot];
      }
    }
  } else {
    add_slots_of_one(table, FinishShared<E>{shared.of_warps, sums}, room, count);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    take_scalar_step(problem, state, room, reduction, shared.stop != 0, sums);
  }
  __syncthreads();
}

}  // namespace shardsolve::runtime::cuda::krylov_finish
