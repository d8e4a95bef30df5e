/// Programs whose shape is known, with the end of their reduction if there is one rank: the last
/// block of threads makes it. Compiled with --fmad=false: what is fused is written so.
#include "runtime/cuda/kernels/krylov/known.cuh"
#include "runtime/cuda/kernels/krylov/take_step.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/meeting.cuh"
#include "runtime/cuda/krylov_device_kernels.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

using krylov::Known;
using krylov::Problem;
using krylov::Program;
using krylov::State;
using krylov::StateRoom;
using krylov::SumTable;
using krylov::Vectors;
using krylov_finish::StepShared;
using namespace krylov_run;

/// That run at the same time, by their registers.
constexpr int blocks_a_multiprocessor = 4;

template <class E>
struct KnownCall {
  Known known;
  Program program;
  Vectors<E> vectors;
  State* state;
  StateRoom room;
  SumTable<E> sums;
  const std::int32_t* rank;
  Chunks chunks;
  std::int64_t blocks;
  Problem problem;
  std::int32_t reduction;  ///< whose end comes with the program, or -1
};

template <class E>
union ListedOrKnown {
  RunShared<E> listed;
  KnownShared<E> known;
  StepShared<E> step;
};

template <class E>
__device__ RunView<E> view_of(const KnownCall<E>& call) {
  return {call.program,
          call.vectors,
          call.room,
          call.sums,
          call.rank,
          call.chunks.levels,
          call.chunks.chunk_levels};
}

// Apart, so that their registers are not those of the rest.

template <class E>
__device__ __attribute__((noinline)) void run_listed(const KnownCall<E>& call, const State& state,
                                                     RunShared<E>& shared, std::int64_t number,
                                                     std::int64_t step, std::int64_t count) {
  run_chunks<E>(view_of(call), state, shared, number, step, count);
}
template <class E>
__device__ __attribute__((noinline)) void end_reduction(const KnownCall<E>& call, State& state,
                                                        StepShared<E>& shared) {
  krylov_finish::take_step(call.problem, call.sums, call.room, call.reduction, state, shared);
}

template <class E>
__global__ void __launch_bounds__(threads_a_block, blocks_a_multiprocessor)
    run_known_program(const __grid_constant__ KnownCall<E> given) {
  __shared__ std::int64_t state_copy[Words<State>::count];
  __shared__ std::int64_t call_copy[Words<KnownCall<E>>::count];
  __shared__ std::int64_t shared_words[Words<ListedOrKnown<E>>::count];
  const StagedCopy<KnownCall<E>, threads_a_block> of_call(words_of(given));
  begin_after_last();
  const StagedCopy<State, threads_a_block> of_state(
      reinterpret_cast<const std::int64_t*>(given.state));
  of_call.put(call_copy);
  of_state.put(state_copy);
  __syncthreads();
  State& state = *reinterpret_cast<State*>(state_copy);
  const KnownCall<E>& call = *reinterpret_cast<const KnownCall<E>*>(call_copy);
  auto& shared = *reinterpret_cast<ListedOrKnown<E>*>(shared_words);
  if (state.done != 0) {
    return;
  }
  if (call.known.is_usual(state)) {
    run_known<E>(view_of(call), call.known, state, shared.known, blockIdx.x, call.blocks,
                 call.chunks.count);
    const ChunkPlaces<E> chunks(view_of(call), call.chunks.count);
    for (std::int64_t turn = blockIdx.x; turn < call.chunks.count && call.sums.layout.ranks > 1;
         turn += call.blocks) {
      if (const std::int64_t chunk = chunks.number(turn); chunks.is_shared(chunk)) {
        __syncthreads();
        run_listed(call, state, shared.listed, chunk, 1, chunk + 1);
      }
    }
  } else {
    run_listed(call, state, shared.listed, blockIdx.x, call.blocks, call.chunks.count);
  }
  if (call.reduction >= 0 &&
      is_last_to_come(call.room.turnstile, static_cast<std::uint32_t>(call.blocks))) {
    end_reduction(call, state, shared.step);
    copy_words(reinterpret_cast<std::int64_t*>(call.state), state_copy, Words<State>::count,
               threadIdx.x, threads_a_block);
  }
}

template <class E>
Chunks chunks_of(const KnownCall<E>& call) {
  return krylov_run::chunks_of(call.vectors, call.sums.layout, call.program.dots > 0,
                               call.rank != nullptr);
}

/// Whether the shape is known; enqueues it then.
template <class E>
bool enqueue_known(cudaStream_t stream, KnownCall<E> call) {
  call.known = krylov::ShapeFinder<E>(call.program, call.vectors).find();
  call.chunks = chunks_of(call);
  if (call.known.shape < 0 || call.chunks.chunk_levels > KnownShared<E>::max_levels + 4) {
    return false;
  }
  call.blocks = std::min(call.chunks.count, blocks_a_multiprocessor * max_together());
  launch_early(stream, &run_known_program<E>, call.blocks, {dim3(threads_a_block)}, call);
  return true;
}

}  // namespace

template <class E>
bool KrylovDeviceKernels<E>::run_known(cudaStream_t stream, const Program& program,
                                       const Vectors<E>& vectors, const State* state,
                                       const StateRoom& room, const SumTable<E>& sums,
                                       const std::int32_t* rank) {
  return enqueue_known<E>(stream, {.known = {},
                                   .program = program,
                                   .vectors = vectors,
                                   .state = const_cast<State*>(state),
                                   .room = room,
                                   .sums = sums,
                                   .rank = rank,
                                   .chunks = {},
                                   .blocks = 0,
                                   .problem = {},
                                   .reduction = -1});
}

template <class E>
bool KrylovDeviceKernels<E>::fits_end(const Program& program, const Vectors<E>& vectors,
                                      const SumTable<E>& sums, const StateRoom& room) {
  return room.turnstile != nullptr && sums.layout.ranks == 1 && vectors.rows > 0 &&
         krylov_finish::makes_all_sums(sums, [&](int slot) { return program.makes_sum(slot); }) &&
         krylov::ShapeFinder<E>(program, vectors).find().shape >= 0 &&
         krylov_run::chunks_of(vectors, krylov_finish::with_large_blocks(sums).layout, true, false)
                 .chunk_levels <= KnownShared<E>::max_levels + 4;
}

template <class E>
void KrylovDeviceKernels<E>::run_to_end(cudaStream_t stream, const Problem& problem,
                                        const Program& program, const Vectors<E>& vectors,
                                        int reduction, const SumTable<E>& sums, State* state,
                                        const StateRoom& room) {
  enqueue_known<E>(stream, {.known = {},
                            .program = program,
                            .vectors = vectors,
                            .state = state,
                            .room = room,
                            .sums = krylov_finish::with_large_blocks(sums),
                            .rank = nullptr,
                            .chunks = {},
                            .blocks = 0,
                            .problem = problem,
                            .reduction = reduction});
}

#define SHARDSOLVE_INSTANTIATE(E)                                                                  \
  template bool KrylovDeviceKernels<E>::run_known(cudaStream_t, const Program&, const Vectors<E>&, \
                                                  const State*, const StateRoom&,                  \
                                                  const SumTable<E>&, const std::int32_t*);        \
  template bool KrylovDeviceKernels<E>::fits_end(const Program&, const Vectors<E>&,                \
                                                 const SumTable<E>&, const StateRoom&);            \
  template void KrylovDeviceKernels<E>::run_to_end(cudaStream_t, const Problem&, const Program&,   \
                                                   const Vectors<E>&, int, const SumTable<E>&,     \
                                                   State*, const StateRoom&);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
