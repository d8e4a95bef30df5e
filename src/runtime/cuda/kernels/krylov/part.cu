/// A part of a round in one kernel: programs, and the ends of reductions of which no other rank has
/// a share, with their steps. Compiled with --fmad=false: what is fused is written so.
///
/// One block of threads has all rows. Several that wait for each other at the end of each reduction
/// (a cooperative launch) take longer than kernels of their own: 59 us instead of 45 with 64^3 rows
/// on an H100.
#include "runtime/cuda/kernels/krylov/known.cuh"
#include "runtime/cuda/kernels/krylov/take_step.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/krylov_device_kernels.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

using krylov::Known;
using krylov::max_reductions;
using krylov::Part;
using krylov::Problem;
using krylov::State;
using krylov::StateRoom;
using krylov::SumTable;
using krylov::Vectors;
using krylov_finish::StepShared;
using krylov_run::KnownShared;
using krylov_run::RunShared;
using krylov_run::RunView;
using krylov_run::threads_a_block;

template <class E>
struct PartCall {
  Problem problem;
  Part part;
  Known known[Part::max_programs];
  Vectors<E> vectors;
  SumTable<E> sums[max_reductions];
  State* state;
  StateRoom room;
};

template <class E>
struct PartShared {
  std::int64_t call[Words<PartCall<E>>::count];
  std::int64_t state[Words<State>::count];
  RunShared<E> run;
  KnownShared<E> known;
  StepShared<E> step;
};

/// The program of an item, by all threads.
template <class E>
__device__ void run_item(const PartCall<E>& call, const Part::Item& item, const State& state,
                         PartShared<E>& shared) {
  const SumTable<E>& sums = call.sums[item.reduction];
  const RunView<E> view{call.part.program[item.program],
                        call.vectors,
                        call.room,
                        sums,
                        nullptr,
                        krylov::SumLayout::exponent_of(sums.layout.block_leaves),
                        krylov_run::levels_at_once};
  const Known& known = call.known[item.program];
  if (known.is_usual(state)) {
    krylov_run::run_known(view, known, state, shared.known, 0, 1, 1);
  } else {
    krylov_run::run_chunks<E>(view, state, shared.run, 0, 1, 1);
  }
}

template <class E>
__global__ void __launch_bounds__(threads_a_block)
    run_part_of_round(const __grid_constant__ PartCall<E> given) {
  PartShared<E>& shared = dynamic_shared<PartShared<E>>();
  const StagedCopy<PartCall<E>, threads_a_block> of_call(words_of(given));
  begin_after_last();
  const StagedCopy<State, threads_a_block> of_state(
      reinterpret_cast<const std::int64_t*>(given.state));
  of_call.put(shared.call);
  of_state.put(shared.state);
  __syncthreads();
  const PartCall<E>& call = *reinterpret_cast<const PartCall<E>*>(shared.call);
  State& state = *reinterpret_cast<State*>(shared.state);
#pragma unroll 1
  for (int at = 0; at < call.part.items && state.done == 0; ++at) {
    const Part::Item& item = call.part.item[at];
    if (item.program >= 0) {
      run_item(call, item, state, shared);
      __syncthreads();
    } else {
      krylov_finish::take_step(call.problem, call.sums[item.reduction], call.room, item.reduction,
                               state, shared.step);
    }
  }
  __syncthreads();
  copy_words(reinterpret_cast<std::int64_t*>(call.state), shared.state, Words<State>::count,
             threadIdx.x, threads_a_block);
}

/// Whether all sums of a reduction that a part makes are those of the end that it makes as well: no
/// other kernel has a share in them, nor does the part make some for the next round.
template <class E>
bool makes_and_ends(const Part& part, int reduction, const SumTable<E>& sums) {
  const Part::Item* const all = part.item + part.items;
  const auto makes = [&](const Part::Item& item, int slot) {
    return item.program >= 0 && item.reduction == reduction &&
           part.program[item.program].makes_sum(slot);
  };
  const Part::Item* const end = std::find_if(part.item, all, [&](const Part::Item& item) {
    return item.program < 0 && item.reduction == reduction;
  });
  return end != all && krylov_finish::makes_all_sums(sums, [&](int slot) {
           const auto makes_it = [&](const Part::Item& item) { return makes(item, slot); };
           return std::any_of(part.item, end, makes_it) && std::none_of(end, all, makes_it);
         });
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
  PartCall<E> call{.problem = problem,
                   .part = part,
                   .known = {},
                   .vectors = vectors,
                   .sums = {},
                   .state = state,
                   .room = room};
  for (int at = 0; at < part.programs; ++at) {
    call.known[at] = krylov::ShapeFinder<E>(part.program[at], vectors).find();
  }
  for (int reduction = 0; reduction < reductions; ++reduction) {
    call.sums[reduction] = makes_and_ends(part, reduction, sums[reduction])
                               ? krylov_finish::with_large_blocks(sums[reduction])
                               : sums[reduction];
  }
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
