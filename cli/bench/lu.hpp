/// The calls of the LU family timed on one system, each answer judged.
#pragma once

#include "timing.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>

#include <cstdint>

namespace shardsolve::cli::bench {

/// As bench_cholesky, of a general matrix.
template <Scalar T>
BenchResult bench_lu(Mesh& mesh, std::int64_t n, std::int64_t tile, std::int64_t runs,
                     const RunOptions& options, const BenchProgress& progress);

/// LAPACK's getrf of the BLAS that CPU devices compute with, on one core.
template <Scalar T>
Timing time_lapack_lu(std::int64_t n, std::int64_t runs, const RunOptions& options,
                      const BenchProgress& progress);

}  // namespace shardsolve::cli::bench
