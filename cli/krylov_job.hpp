/// Sparse systems: the solve on the ranks, and all that becomes of its verdict.
#pragma once

#include "krylov_options.hpp"
#include "report.hpp"
#include "sparse_input.hpp"
#include "workplace.hpp"

#include <shardsolve/krylov_files.hpp>
#include <shardsolve/sharded.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::cli {

template <Scalar T>
struct SparseSolution {
  RightHandSides<T> x;  ///< where the mesh computes; best iterates where a solve failed
  /// Of each column of b; of a matrix that is not finite one for all.
  std::vector<krylov::Result> results;
};

/// What a system and the options ask for: n, entries, dtype, backend and ranks are those of here,
/// the rest is the default or what was given.
template <Scalar T>
krylov::Request request_for(const Workplace& workplace, const SparseSystem<T>& system);

/// How --blocks cuts its matrix, which outlives the function.
template <Scalar T>
CutBlocks cut_of(const SparseSystem<T>& system) {
  return [&a = system.a](std::int64_t count) { return krylov::blocks_of(a, count); };
}

/// Solves it, column after column of b. A NaN or an infinity in A ends it before:
/// nonfinite_operator, x = 0, the outcome's location is the entry. Throws Error(cancelled) if a
/// stop was requested; what krylov::solve throws.
template <Scalar T>
SparseSolution<T> solve_sparse(Workplace& workplace, const SparseSystem<T>& system,
                               const krylov::Request& request);

/// A system of an input that ranks share.
template <Scalar T>
using SharedSystem = std::shared_ptr<const SparseSystem<T>>;

/// What is known before the solve; x is a result if options.output names a file.
Report report_for(const Options& options, const SparseInput& input, const krylov::Request& request);

/// Solves it and sets outcome and verdict of the report. If there is an answer, writes x, trace and
/// log; if not, log, best iterate and capture, as far as the options ask for them. Throws as
/// solve_sparse; if outputs cannot be made, before the solve.
template <Scalar T>
void solve_and_keep(Workplace& workplace, const SharedSystem<T>& system,
                    const krylov::Request& request, Report& report);

/// `shardsolve solve` of a sparse A.
int run_sparse_solve(Workplace& workplace, ProgressDisplay& progress);

}  // namespace shardsolve::cli
