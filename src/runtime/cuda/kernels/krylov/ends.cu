/// The first and the last step of a solve that is made part by part, in one thread. Compiled with
/// --fmad=false: what is fused is written so.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/krylov_device_kernels.hpp"
#include "runtime/krylov/ends.hpp"

#include <cstdint>
#include <limits>

namespace shardsolve::runtime::cuda {
namespace {

using krylov::Problem;
using krylov::Report;
using krylov::SolveState;

__global__ void begin_one(const __grid_constant__ Problem problem, const Scan* of_b,
                          const Scan* of_x, const std::int64_t* boundaries, std::int64_t ranks,
                          std::int64_t largest, SolveState* solve) {
  *solve = krylov::begin_solve(problem, krylov::merged(of_b, boundaries, ranks),
                               krylov::merged(of_x, boundaries, ranks), largest);
}

template <class Real>
__global__ void end_one(const __grid_constant__ Problem problem, const Scan* of_x,
                        std::int64_t ranks, SolveState* solve, Report* report, Real* figures) {
  krylov::end_solve(problem, of_x, ranks, *solve, *report, figures);
}

}  // namespace

template <class E>
void KrylovDeviceKernels<E>::begin_solve(cudaStream_t stream, const Problem& problem,
                                         const Scan* of_b, const Scan* of_x,
                                         const std::int64_t* boundaries, std::int64_t ranks,
                                         SolveState* solve) {
  constexpr std::int64_t largest = std::numeric_limits<RealPart<E>>::max_exponent;
  launch(stream, &begin_one, 1, {dim3(1)}, problem, of_b, of_x, boundaries, ranks, largest, solve);
}

template <class E>
void KrylovDeviceKernels<E>::end_solve(cudaStream_t stream, const Problem& problem,
                                       const Scan* of_x, std::int64_t ranks, SolveState* solve,
                                       Report* report, RealPart<E>* figures) {
  launch(stream, &end_one<RealPart<E>>, 1, {dim3(1)}, problem, of_x, ranks, solve, report, figures);
}

#define SHARDSOLVE_INSTANTIATE(E)                                                              \
  template void KrylovDeviceKernels<E>::begin_solve(cudaStream_t, const Problem&, const Scan*, \
                                                    const Scan*, const std::int64_t*,          \
                                                    std::int64_t, SolveState*);                \
  template void KrylovDeviceKernels<E>::end_solve(cudaStream_t, const Problem&, const Scan*,   \
                                                  std::int64_t, SolveState*, Report*,          \
                                                  RealPart<E>*);
SHARDSOLVE_INSTANTIATE(float)
SHARDSOLVE_INSTANTIATE(double)
SHARDSOLVE_INSTANTIATE(Complex<float>)
SHARDSOLVE_INSTANTIATE(Complex<double>)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::runtime::cuda
