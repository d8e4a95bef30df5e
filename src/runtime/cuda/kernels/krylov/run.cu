/// A program of a Krylov solve in one kernel. Compiled with --fmad=false.
#include "runtime/cuda/kernels/krylov/run.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/krylov_device_kernels.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

using krylov::Program;
using krylov::State;
using krylov::StateRoom;
using krylov::SumTable;
using krylov::Vectors;
using namespace krylov_run;

/// That run at the same time, by their registers.
constexpr std::int64_t blocks_a_multiprocessor = 2;

/// Where memory is what limits, programs with divisions take longer as a known shape than by the
/// list: 640 us with 256^3 rows on an H100, where the list takes 520 for more vectors.
template <class E>
bool is_better_by_list(const Program& program, const Vectors<E>& vectors) {
  return vectors.rows > max_rows_to_end &&
         std::any_of(
             program.update, program.update + program.updates,
             [](const krylov::Update& update) { return update.kind == UpdateKind::divide; });
}

template <class E>
struct RunCall {
  Program program;
  Vectors<E> vectors;
  const State* state;
  StateRoom room;
  SumTable<E> sums;
  const std::int32_t* rank;
  Chunks chunks;
  std::int64_t blocks;
};

template <class E>
__global__ void __launch_bounds__(threads_a_block)
    run_program(const __grid_constant__ RunCall<E> given) {
  __shared__ std::int64_t state_copy[Words<State>::count];
  __shared__ std::int64_t call_copy[Words<RunCall<E>>::count];
  __shared__ RunShared<E> shared;
  copy_words(call_copy, words_of(given), Words<RunCall<E>>::count, threadIdx.x, threads_a_block);
  begin_after_last();
  copy_words(state_copy, reinterpret_cast<const std::int64_t*>(given.state), Words<State>::count,
             threadIdx.x, threads_a_block);
  __syncthreads();
  const State& state = *reinterpret_cast<const State*>(state_copy);
  const RunCall<E>& call = *reinterpret_cast<const RunCall<E>*>(call_copy);
  if (state.done == 0) {
    run_chunks<E>({call.program, call.vectors, call.room, call.sums, call.rank, call.chunks.levels,
                   call.chunks.chunk_levels},
                  state, shared, blockIdx.x, call.blocks, call.chunks.count);
  }
}

}  // namespace

template <class E>
void KrylovDeviceKernels<E>::run(cudaStream_t stream, const Program& program,
                                 const Vectors<E>& vectors, const State* state,
                                 const StateRoom& room, const SumTable<E>& sums,
                                 const std::int32_t* rank) {
  if (vectors.rows == 0 || (!is_better_by_list(program, vectors) &&
                            run_known(stream, program, vectors, state, room, sums, rank))) {
    return;
  }
  const Chunks chunks = chunks_of(vectors, sums.layout, program.dots > 0, rank != nullptr);
  // A block takes several chunks rather than that a new one begins: to begin takes as long as half
  // a chunk.
  const std::int64_t blocks = std::min(chunks.count, blocks_a_multiprocessor * max_together());
  launch_early(stream, &run_program<E>, blocks, {dim3(threads_a_block)},
               RunCall<E>{program, vectors, state, room, sums, rank, chunks, blocks});
}

#define SHARDSOLVE_INSTANTIATE(E)                                                               \
  template void KrylovDeviceKernels<E>::run(cudaStream_t, const Program&, const Vectors<E>&,    \
                                            const State*, const StateRoom&, const SumTable<E>&, \
                                            const std::int32_t*);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
