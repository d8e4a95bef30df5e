/// The calls of shardsolve timed on one system, each answer judged.
#pragma once

#include "timing.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>

#include <cstdint>

namespace shardsolve::cli::bench {

/// Each call once without being timed, then `runs` times; the last answer is judged. In all
/// processes of a mesh. Throws Error, of kind internal if a call gives no answer at all.
template <Scalar T>
BenchResult bench_cholesky(Mesh& mesh, std::int64_t n, std::int64_t tile, std::int64_t runs,
                           const RunOptions& options, const BenchProgress& progress);

/// LAPACK's potrf of the BLAS that CPU devices compute with, on one core.
template <Scalar T>
Timing time_lapack(std::int64_t n, std::int64_t runs, const RunOptions& options,
                   const BenchProgress& progress);

/// Right-hand sides of the second solve.
inline constexpr std::int64_t many = 64;

}  // namespace shardsolve::cli::bench
