/// The calls of shardsolve timed on one system, each answer judged.
#pragma once

#include "judge.hpp"
#include "samples.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace shardsolve::cli::bench {

/// One call.
struct Timing {
  std::string job;   ///< for scripts: "factor", "solve_1", ...
  std::string what;  ///< for people
  Samples samples;
  double flops = 0.0;
  std::optional<std::int64_t> bytes;  ///< on each device: matrix, right-hand sides, workspace
  std::vector<Gate> gates;

  /// Whether its answers are right: if not, its speed means nothing.
  bool passed() const;
  /// The gate that is passed by least, or missed by most.
  const Gate& worst() const;
};

struct CholeskyBench {
  double gemm = 0.0;  ///< flops per second of products, of all devices together
  std::vector<Timing> timings;

  bool passed() const;
};

/// Told what is being timed, and which share of its runs is done.
using BenchProgress = std::function<void(const std::string& what, double fraction)>;

/// Each call once without being timed, then `runs` times; the last answer is judged. In all
/// processes of a mesh. Throws Error, of kind internal if a call gives no answer at all.
template <Scalar T>
CholeskyBench bench_cholesky(Mesh& mesh, std::int64_t n, std::int64_t tile, std::int64_t runs,
                             const RunOptions& options, const BenchProgress& progress);

/// LAPACK's potrf of the BLAS that CPU devices compute with, on one core.
template <Scalar T>
Timing time_lapack(std::int64_t n, std::int64_t runs, const RunOptions& options,
                   const BenchProgress& progress);

/// Right-hand sides of the second solve.
inline constexpr std::int64_t many = 64;

}  // namespace shardsolve::cli::bench
