#include "cholesky.hpp"

#include "core/each_dtype.hpp"
#include "doctor/measure.hpp"
#include "runtime/host/blas.hpp"
#include "system.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/device_memory.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>

namespace shardsolve::cli::bench {
namespace {

/// The backward error that the library itself reports.
template <Scalar T>
Gate certificate(const Outcome& outcome, double limit) {
  constexpr double not_there = std::numeric_limits<double>::quiet_NaN();
  return {"certificate", outcome.backward_error.value_or(not_there) / unit_roundoff<T>, limit};
}

template <Scalar T>
class Calls {
 public:
  Calls(Mesh& mesh, std::int64_t n, std::int64_t tile, std::int64_t runs, const RunOptions& options,
        const BenchProgress& progress)
      : mesh_(mesh),
        options_(options),
        progress_(progress),
        tile_(tile),
        runs_(runs),
        layout_(SlabLayout::even(n, mesh.ranks(), tile)),
        system_(mesh, n, many, options) {}

  Timing factor() {
    Timing timing{.job = "factor", .what = "factor, log-determinant"};
    repeat(timing, [&] {
      const ShardedMatrix<T> a = system_.fresh_matrix(tile_);
      const double seconds = seconds_of([&] { factor_ = cholesky_factor(mesh_, a, options_); });
      require_ok(factor_->outcome);
      timing.flops = factor_->outcome.flops;
      return seconds;
    });
    const CholeskyFactor<T>& factor = *factor_;  // NOLINT(bugprone-unchecked-optional-access)
    timing.gates =
        judge_factor(mesh_, options_, system_.a(), factor.slabs, log_determinant(factor));
    timing.bytes = plan_cholesky_factor(layout_, dtype_of<T>).bytes();
    return timing;
  }

  /// With the factor of factor().
  Timing solve_with_factor(std::int64_t columns) {
    Timing timing{
        .job = fmt::format("solve_{}", columns),
        .what = fmt::format("solve, {} right-hand side{}", columns, columns == 1 ? "" : "s")};
    RightHandSides<T> x = system_.fresh_sides(tile_, columns);
    Outcome outcome;
    repeat(timing, [&] {
      x = system_.fresh_sides(tile_, columns);
      const double seconds =
          seconds_of([&] { outcome = cholesky_solve(mesh_, *factor_, x, options_); });
      require_ok(outcome);
      return seconds;
    });
    timing.flops = outcome.flops;
    timing.gates = {judge_solution(mesh_, options_, system_.a(), x), certificate<T>(outcome, 10.0)};
    timing.bytes = plan_cholesky_solve(layout_, dtype_of<T>, columns).bytes();
    return timing;
  }

  Timing one_call() {
    Timing timing{.job = "one_call", .what = "factor, solve 1, rcond"};
    RightHandSides<T> x = system_.fresh_sides(tile_, 1);
    Outcome outcome;
    repeat(timing, [&] {
      const ShardedMatrix<T> a = system_.fresh_matrix(tile_);
      x = system_.fresh_sides(tile_, 1);
      const double seconds = seconds_of([&] { outcome = solve(mesh_, a, x, options_); });
      require_ok(outcome);
      return seconds;
    });
    timing.flops = outcome.flops;
    timing.gates = {judge_solution(mesh_, options_, system_.a(), x), certificate<T>(outcome, 10.0)};
    timing.bytes = std::max(plan_cholesky_factor(layout_, dtype_of<T>).bytes(),
                            plan_cholesky_solve(layout_, dtype_of<T>, 1).bytes());
    return timing;
  }

  Timing inverse() {
    Timing timing{.job = "inverse", .what = "factor, inverse"};
    Outcome outcome;
    ShardedMatrix<T> x = system_.fresh_matrix(tile_);
    repeat(timing, [&] {
      x = system_.fresh_matrix(tile_);
      return seconds_of([&] {
        CholeskyFactor<T> factor = cholesky_factor(mesh_, x, options_);
        require_ok(factor.outcome);
        timing.flops = factor.outcome.flops;
        outcome = cholesky_inverse(mesh_, std::move(factor), options_);
        require_ok(outcome);
        timing.flops += outcome.flops;
      });
    });
    timing.gates = {judge_inverse(mesh_, options_, system_.a(), x), certificate<T>(outcome, 30.0)};
    timing.bytes = plan_cholesky_inverse(layout_, dtype_of<T>).bytes();
    return timing;
  }

 private:
  template <class Run>
  void repeat(Timing& timing, Run run) const {
    bench::repeat(timing, runs_, progress_, run);
  }

  Mesh& mesh_;
  const RunOptions& options_;
  const BenchProgress& progress_;
  std::int64_t tile_;
  std::int64_t runs_;
  SlabLayout layout_;
  System<T> system_;
  std::optional<CholeskyFactor<T>> factor_;
};

}  // namespace

template <Scalar T>
BenchResult bench_cholesky(Mesh& mesh, std::int64_t n, std::int64_t tile, std::int64_t runs,
                           const RunOptions& options, const BenchProgress& progress) {
  BenchResult result;
  result.gemm = doctor::measure_gemm<T>(mesh, options);
  Calls<T> calls(mesh, n, tile, runs, options, progress);
  result.timings.push_back(calls.factor());
  result.timings.push_back(calls.solve_with_factor(1));
  result.timings.push_back(calls.solve_with_factor(many));
  result.timings.push_back(calls.one_call());
  result.timings.push_back(calls.inverse());
  return result;
}

template <Scalar T>
Timing time_lapack(std::int64_t n, std::int64_t runs, const RunOptions& options,
                   const BenchProgress& progress) {
  Timing timing{.job = "lapack_potrf", .what = "LAPACK potrf, one core"};
  Mesh one = Mesh::host(1);
  System<T> system(one, n, 1, options);
  // With one slab and one block the order of elimination is LAPACK's.
  ShardedMatrix<T> a = system.fresh_matrix(n);
  for (std::int64_t i = 0; i <= runs; ++i) {
    progress(timing.what, static_cast<double>(i) / static_cast<double>(runs + 1));
    a = system.fresh_matrix(n);
    std::int64_t info = 0;
    const double seconds = seconds_of(
        [&] { info = runtime::host::blas::Blas<T>::potrf(runtime::Triangle::lower, a.slab(0)); });
    if (info != 0) {
      throw Error(ErrorKind::internal, fmt::format("LAPACK's potrf returned {}", info));
    }
    if (i > 0) {
      timing.samples.seconds.push_back(seconds);
    }
    if (options.cancel.stop_requested()) {
      throw Error(ErrorKind::cancelled, "interrupted");
    }
  }
  const auto size = static_cast<double>(n);
  timing.flops = (is_complex<T> ? 4.0 : 1.0) * size * size * size / 3.0;
  double logdet = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    logdet += 2.0 * std::log(static_cast<double>(std::real(a.slab(0)(i, i))));
  }
  timing.gates = judge_factor(one, options, system.a(), a, logdet);
  return timing;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                         \
  template BenchResult bench_cholesky<T>(Mesh&, std::int64_t, std::int64_t, std::int64_t, \
                                         const RunOptions&, const BenchProgress&);        \
  template Timing time_lapack<T>(std::int64_t, std::int64_t, const RunOptions&,           \
                                 const BenchProgress&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::cli::bench
