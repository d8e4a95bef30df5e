/// Eigenpairs timed on one random matrix, each answer judged.
#pragma once

#include "timing.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>

#include <cstdint>

namespace shardsolve::cli::bench {

/// All eigenpairs, the smallest tenth of them, and eigenvalues alone: each once without being
/// timed, then `runs` times; the last answer is judged. In all processes of a mesh. Throws Error,
/// of kind internal if a call gives no answer at all.
template <Scalar T>
BenchResult bench_eigh(Mesh& mesh, std::int64_t n, std::int64_t runs, const RunOptions& options,
                       const BenchProgress& progress);

/// LAPACK's syevd or heevd, all eigenpairs, of the BLAS that CPU devices compute with, on one core.
template <Scalar T>
Timing time_lapack_eigh(std::int64_t n, std::int64_t runs, const RunOptions& options,
                        const BenchProgress& progress);

}  // namespace shardsolve::cli::bench
