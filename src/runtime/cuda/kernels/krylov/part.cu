/// A part of a round in one kernel: programs, and the ends of reductions of which no other rank has
/// a share, with their steps. Compiled with --fmad=false: what is fused is written so.
///
/// Each block of threads has one chunk of the rows, in all programs. At the end of a reduction the
/// block that comes last adds up and takes the step, and the others wait for the state.
#include "runtime/cuda/kernels/comes_last.cuh"
#include "runtime/cuda/kernels/krylov/finish.cuh"
#include "runtime/cuda/kernels/krylov/run.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/meeting.cuh"
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

/// Words of StateRoom::meeting: the blocks that have come, those that have left, and whether the
/// step of each reduction of the part has been taken.
enum Word : std::uint8_t { come, left, steps };
static_assert(steps + Part::most_items <= StateRoom::meeting_words);

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
  std::uint32_t blocks;
};

template <class E>
struct PartShared {
  std::int64_t call[Words<PartCall<E>>::count];
  std::int64_t state[Words<State>::count];
  RunShared<E> run;
  SumOf<E> of_warps[warps_a_block];
  double at_hand[2 * krylov_finish::sums_at_hand];
  int stop;
  int is_last;
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
__device__ void end_reduction(const PartCall<E>& call, int reduction, int turn,
                              PartShared<E>& shared) {
  auto* const of_all = reinterpret_cast<std::int64_t*>(call.state);
  std::uint32_t* const taken = call.room.meeting + steps + turn;
  if (call.blocks == 1) {
    __syncthreads();
    take_step(call, reduction, shared);
  } else if (comes_last(call.room.meeting + come, call.blocks, shared.is_last)) {
    take_step(call, reduction, shared);
    copy_words(of_all, shared.state, Words<State>::count, threadIdx.x, threads_a_block);
    announce(taken, 1);
  } else {
    await(taken, 1);
    for (unsigned word = threadIdx.x; word < Words<State>::count; word += threads_a_block) {
      shared.state[word] = load_fresh(of_all + word);
    }
    __syncthreads();
  }
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
  int turns = 0;
#pragma unroll 1
  for (int at = 0; at < call.part.items && state.done == 0; ++at) {
    const Part::Item& item = call.part.item[at];
    if (item.program >= 0) {
      krylov_run::run_chunks<E>(
          {call.part.program[item.program], call.vectors, call.room, call.sums[item.reduction],
           nullptr, call.levels, call.chunk_levels},
          state, shared.run, blockIdx.x, 1, blockIdx.x + 1);
      __syncthreads();
    } else {
      end_reduction(call, item.reduction, turns++, shared);
    }
  }
  if (call.blocks == 1) {
    __syncthreads();
    copy_words(reinterpret_cast<std::int64_t*>(call.state), shared.state, Words<State>::count,
               threadIdx.x, threads_a_block);
  } else if (threadIdx.x == 0 &&
             take_number(call.room.meeting + left, call.blocks) == call.blocks - 1) {
    for (int turn = 0; turn < turns; ++turn) {
      call.room.meeting[steps + turn] = 0;
    }
  }
}

}  // namespace

template <class E>
bool KrylovDeviceKernels<E>::fits_part(const Part& part, const Vectors<E>& vectors,
                                       const SumTable<E>& sums) {
  const bool has_ends = part.items > part.programs;
  return has_ends && part.items > 1 && sums.layout.ranks == 1 && vectors.rows > 0 &&
         krylov_run::chunks_of(vectors, sums.layout, true, false).count <= most_together();
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
                   .team = krylov_finish::team_of(sums[0].layout),
                   .blocks = static_cast<std::uint32_t>(chunks.count)};
  std::copy_n(sums, reductions, call.sums);
  const Block block{dim3(threads_a_block), sizeof(PartShared<E>)};
  if (chunks.count == 1) {
    launch_early(stream, &run_part_of_round<E>, 1, block, call);
  } else {
    launch_together(stream, &run_part_of_round<E>, chunks.count, block, call);
  }
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
