/// The GPU kernels that begin and end a solve in device memory, as nvcc compiles them.
#pragma once

#include "runtime/cuda/element.hpp"
#include "runtime/krylov/ends.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// What the steps of krylov/enqueue_local_call.hpp of these names do, with the bits of the CPU.
template <class E>
struct KrylovEndKernels {
  static void begin(cudaStream_t stream, const krylov::Problem& problem, const Scan* of_b,
                    const Scan* of_x, const std::int64_t* boundaries, std::int64_t ranks,
                    krylov::SolveState* solve);
  static void end(cudaStream_t stream, const krylov::Problem& problem, const Scan* of_x,
                  std::int64_t ranks, krylov::SolveState* solve, krylov::Report* report,
                  RealPart<E>* figures);
  static void scale(cudaStream_t stream, krylov::Way way, const krylov::SolveState* solve,
                    const E* source, E* target, std::int64_t rows);
};

}  // namespace shardsolve::runtime::cuda
