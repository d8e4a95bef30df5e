/// How a solve begins and ends in device memory: runtime/krylov/ends.hpp by one thread, and what is
/// done to its vectors. Compiled with --fmad=false.
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/krylov_end_kernels.hpp"

#include <cstdint>
#include <limits>

namespace shardsolve::runtime::cuda {
namespace {

constexpr int threads_a_block = 256;

__global__ void begin_one(krylov::Problem problem, const Scan* of_b, const Scan* of_x,
                          const std::int64_t* boundaries, std::int64_t ranks, std::int64_t largest,
                          krylov::SolveState* solve) {
  *solve = krylov::begin_solve(problem, krylov::merged(of_b, boundaries, ranks),
                               krylov::merged(of_x, boundaries, ranks), largest);
}

template <class Real>
__global__ void end_one(krylov::Problem problem, const Scan* of_x, std::int64_t ranks,
                        krylov::SolveState* solve, krylov::Report* report, Real* figures) {
  krylov::end_solve(problem, of_x, ranks, *solve, *report, figures);
}

template <class E>
__global__ void __launch_bounds__(threads_a_block)
    scale_rows(krylov::Way way, const krylov::SolveState* solve, const E* source, E* target,
               std::int64_t rows) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads_a_block + threadIdx.x;
  if (i >= rows) {
    return;
  }
  if (krylov::is_zero_vector(*solve)) {
    target[i] = E{};
    return;
  }
  const auto exponent =
      static_cast<int>(way == krylov::Way::to_solve ? solve->exponent : -solve->exponent);
  const E number = source[i];
  if constexpr (parts<E> == 2) {
    target[i] = {scalbn(number.re, exponent), scalbn(number.im, exponent)};
  } else {
    target[i] = scalbn(number, exponent);
  }
}

}  // namespace

template <class E>
void KrylovEndKernels<E>::begin(cudaStream_t stream, const krylov::Problem& problem,
                                const Scan* of_b, const Scan* of_x, const std::int64_t* boundaries,
                                std::int64_t ranks, krylov::SolveState* solve) {
  launch(stream, &begin_one, 1, {dim3(1)}, problem, of_b, of_x, boundaries, ranks,
         std::int64_t{std::numeric_limits<RealPart<E>>::max_exponent}, solve);
}

template <class E>
void KrylovEndKernels<E>::end(cudaStream_t stream, const krylov::Problem& problem, const Scan* of_x,
                              std::int64_t ranks, krylov::SolveState* solve, krylov::Report* report,
                              RealPart<E>* figures) {
  launch(stream, &end_one<RealPart<E>>, 1, {dim3(1)}, problem, of_x, ranks, solve, report, figures);
}

template <class E>
void KrylovEndKernels<E>::scale(cudaStream_t stream, krylov::Way way,
                                const krylov::SolveState* solve, const E* source, E* target,
                                std::int64_t rows) {
  launch(stream, &scale_rows<E>, divide_up(rows, threads_a_block), {dim3(threads_a_block)}, way,
         solve, source, target, rows);
}

template struct KrylovEndKernels<float>;
template struct KrylovEndKernels<double>;
template struct KrylovEndKernels<Complex<float>>;
template struct KrylovEndKernels<Complex<double>>;

}  // namespace shardsolve::runtime::cuda
