/// A part of a round in one kernel: programs, and the ends of reductions of which no other rank has
/// a share, with their steps. Compiled with --fmad=false: what is fused is written so.
///
/// One block of threads has all rows. Several that wait for each other at the end of each reduction
/// (a cooperative launch) take longer than kernels of their own: 59 us instead of 45 with 64^3 rows
/// on an H100.
#include "runtime/cuda/kernels/krylov/finish.cuh"
#include "runtime/cuda/kernels/krylov/run.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/krylov_device_kernels.hpp"
#include "runtime/krylov/step.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

using krylov::Number;
using krylov::Part;
using krylov::Problem;
using krylov::State;
using krylov::StateRoom;
using krylov::SumTable;
using krylov::Vectors;
using krylov_finish::FinishShared;
using krylov_run::RunShared;
using krylov_run::threads_a_block;

constexpr int warps_a_block = threads_a_block / 32;
static_assert(warps_a_block >= krylov_finish::most_of_a_sum);
constexpr int most_reductions = 3;

template <class E>
struct PartCall {
  Problem problem;
  Part part;
  Vectors<E> vectors;
  SumTable<E> sums[most_reductions];
  State* state;
  StateRoom room;
  std::int32_t levels;
  std::int32_t chunk_levels;
  std::int32_t team;
};

template <class E>
struct PartShared {
  std::int64_t call[Words<PartCall<E>>::count];
  std::int64_t state[Words<State>::count];
  RunShared<E> run;
  SumOf<E> of_warps[warps_a_block];
  double at_hand[2 * krylov_finish::sums_at_hand];
  int stop;
};

/// By all threads: the sums of the reduction, and its step in the shared copy of the state.
template <class E>
__device__ void take_step(const PartCall<E>& call, int reduction, PartShared<E>& shared) {
  State& state = *reinterpret_cast<State*>(shared.state);
  const SumTable<E>& table = call.sums[reduction];
  Number* const sums = table.slots <= krylov_finish::sums_at_hand
                           ? reinterpret_cast<Number*>(shared.at_hand)
                           : call.room.sums;
  if (threadIdx.x / 32 == warps_a_block - 1) {
    const bool asked = krylov_finish::stop_asked(table);
    if (threadIdx.x % 32 == 0) {
      shared.stop = asked ? 1 : 0;
    }
  }
  const int count = static_cast<int>(min(std::int64_t{table.slots}, table.fixed + state.columns));
  add_slots(table, FinishShared<E>{shared.of_warps, sums}, call.room, call.team, warps_a_block, 0,
            count);
  __syncthreads();
  if (threadIdx.x == 0) {
    krylov::step(call.problem, state, call.room, reduction, shared.stop != 0, sums);
  }
  __syncthreads();
}

template <class E>
__global__ void __launch_bounds__(threads_a_block)
    run_part_of_round(const __grid_constant__ PartCall<E> given) {
  PartShared<E>& shared = dynamic_shared<PartShared<E>>();
  copy_words(shared.call, words_of(given), Words<PartCall<E>>::count, threadIdx.x, threads_a_block);
  begin_after_last();
  copy_words(shared.state, reinterpret_cast<const std::int64_t*>(given.state), Words<State>::count,
             threadIdx.x, threads_a_block);
  __syncthreads();
  const PartCall<E>& call = *reinterpret_cast<const PartCall<E>*>(shared.call);
  const State& state = *reinterpret_cast<const State*>(shared.state);
#pragma unroll 1
  for (int at = 0; at < call.part.items && state.done == 0; ++at) {
    const Part::Item& item = call.part.item[at];
    if (item.program >= 0) {
      krylov_run::run_chunks<E>(
          {call.part.program[item.program], call.vectors, call.room, call.sums[item.reduction],
           nullptr, call.levels, call.chunk_levels},
          state, shared.run, 0, 1, 1);
      __syncthreads();
    } else {
      take_step(call, item.reduction, shared);
    }
  }
  __syncthreads();
  copy_words(reinterpret_cast<std::int64_t*>(call.state), shared.state, Words<State>::count,
             threadIdx.x, threads_a_block);
}

}  // namespace

template <class E>
bool KrylovDeviceKernels<E>::fits_part(const Part& part, const Vectors<E>& vectors,
                                       const SumTable<E>& sums) {
  const bool has_ends = part.items > part.programs;
  return has_ends && part.items > 1 && sums.layout.ranks == 1 && vectors.rows > 0 &&
         krylov_run::chunks_of(vectors, sums.layout, true, false).count == 1;
}

template <class E>
void KrylovDeviceKernels<E>::run_part(cudaStream_t stream, const Problem& problem, const Part& part,
                                      const Vectors<E>& vectors, const SumTable<E>* sums,
                                      int reductions, State* state, const StateRoom& room) {
  const krylov_run::Chunks chunks = krylov_run::chunks_of(vectors, sums->layout, true, false);
  PartCall<E> call{.problem = problem,
                   .part = part,
                   .vectors = vectors,
                   .sums = {},
                   .state = state,
                   .room = room,
                   .levels = chunks.levels,
                   .chunk_levels = chunks.chunk_levels,
                   .team = krylov_finish::team_of(sums[0].layout)};
  std::copy_n(sums, reductions, call.sums);
  launch_early(stream, &run_part_of_round<E>, 1, {dim3(threads_a_block), sizeof(PartShared<E>)},
               call);
}

#define SHARDSOLVE_INSTANTIATE(E)                                                            \
  template bool KrylovDeviceKernels<E>::fits_part(const Part&, const Vectors<E>&,            \
                                                  const SumTable<E>&);                       \
  template void KrylovDeviceKernels<E>::run_part(cudaStream_t, const Problem&, const Part&,  \
                                                 const Vectors<E>&, const SumTable<E>*, int, \
                                                 State*, const StateRoom&);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
