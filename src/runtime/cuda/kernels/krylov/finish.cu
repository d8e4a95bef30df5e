/// The end of a reduction and the step of its method. One block of threads. Compiled with
/// --fmad=false: what is fused is written so.
#include "runtime/cuda/kernels/krylov/finish.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/krylov_device_kernels.hpp"

#include <algorithm>
#include <cstdint>

namespace shardsolve::runtime::cuda {
namespace {

using krylov::Number;
using krylov::Problem;
using krylov::State;
using krylov::StateRoom;
using krylov::SumTable;
using namespace krylov_finish;

/// Warps that add up at the same time.
constexpr int max_adders = 16;
constexpr int max_threads = 32 * (max_adders + 1);

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
__global__ void __launch_bounds__(max_threads, 1)
    finish_reduction(const __grid_constant__ FinishCall<E> given) {
  __shared__ std::int64_t call_copy[Words<FinishCall<E>>::count];
  __shared__ std::int64_t state_copy[Words<State>::count];
  __shared__ SumOf<E> of_warps[max_adders];
  __shared__ double at_hand[2 * sums_at_hand];
  __shared__ int stop;
  copy_words(call_copy, words_of(given), Words<FinishCall<E>>::count, threadIdx.x, blockDim.x);
  __syncthreads();
  const FinishCall<E>& call = *reinterpret_cast<const FinishCall<E>*>(call_copy);
  const SumTable<E>& table = call.table;
  const StateRoom& room = call.room;
  const int team = call.team;
  Number* const sums = table.slots <= sums_at_hand ? reinterpret_cast<Number*>(at_hand) : room.sums;
  const FinishShared<E> shared{of_warps, sums};
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
    add_slots(table, shared, room, team, static_cast<int>(blockDim.x) / 32 - 1, from, to);
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
    take_scalar_step(call.problem, own, room, call.reduction, stop != 0, sums);
  }
  __syncthreads();
  copy_words(reinterpret_cast<std::int64_t*>(call.state), state_copy, Words<State>::count,
             threadIdx.x, blockDim.x);
}

}  // namespace

template <class E>
void KrylovDeviceKernels<E>::finish(cudaStream_t stream, const Problem& problem, int reduction,
                                    const SumTable<E>& sums, State* state, const StateRoom& room) {
  const int team = team_of(sums.layout);
  const int teams = std::clamp(sums.slots, 1, max_adders / team);
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
