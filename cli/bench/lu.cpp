#include "lu.hpp"

#include "cholesky.hpp"
#include "core/each_dtype.hpp"
#include "doctor/measure.hpp"
#include "lapack_lu.hpp"
#include "system.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/lu.hpp>
#include <shardsolve/plan.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace shardsolve::cli::bench {
namespace {

/// The backward error that the library itself reports.
template <Scalar T>
Gate certificate(const Outcome& outcome) {
  constexpr double not_there = std::numeric_limits<double>::quiet_NaN();
  constexpr double limit = 10.0;
  return {"certificate", outcome.backward_error.value_or(not_there) / unit_roundoff<T>, limit};
}

template <Scalar T>
class LuCalls {
 public:
  LuCalls(Mesh& mesh, std::int64_t n, std::int64_t tile, std::int64_t runs,
          const RunOptions& options, const BenchProgress& progress)
      : mesh_(mesh),
        options_(options),
        progress_(progress),
        tile_(tile),
        runs_(runs),
        layout_(SlabLayout::even(n, mesh.ranks(), tile)),
        system_(mesh, n, many, options, matgen::Kind::general) {}

  Timing factor() {
    Timing timing{.job = "factor", .what = "factor, determinant"};
    repeat(timing, runs_, progress_, [&] {
      const ShardedMatrix<T> into = system_.fresh_matrix(tile_);
      const double seconds =
          seconds_of([&] { factor_ = lu_factor(mesh_, system_.matrix(tile_), into, options_); });
      require_ok(factor_->outcome);
      timing.flops = factor_->outcome.flops;
      return seconds;
    });
    timing.gates = judge_lu(mesh_, options_, system_.a(),
                            *factor_);  // NOLINT(bugprone-unchecked-optional-access)
    timing.bytes = plan_lu_factor(layout_, dtype_of<T>).bytes();
    return timing;
  }

  /// With the factor of factor().
  Timing solve_with_factor(std::int64_t columns) {
    Timing timing{
        .job = fmt::format("solve_{}", columns),
        .what = fmt::format("solve, {} right-hand side{}", columns, columns == 1 ? "" : "s")};
    time_solves(timing, columns, [&](const RightHandSides<T>& x) {
      return lu_solve(mesh_, *factor_, x, options_);  // NOLINT(bugprone-unchecked-optional-access)
    });
    timing.bytes = plan_lu_solve(layout_, dtype_of<T>, columns).bytes();
    return timing;
  }

  Timing one_call() {
    Timing timing{.job = "one_call", .what = "factor, solve 1, rcond"};
    time_solves(timing, 1, [&](const RightHandSides<T>& x) {
      return solve(mesh_, system_.matrix(tile_), x, options_, Rcond::estimated, Assume::general);
    });
    timing.bytes = std::max(plan_lu_factor(layout_, dtype_of<T>).bytes(),
                            plan_lu_solve(layout_, dtype_of<T>, 1).bytes());
    return timing;
  }

 private:
  template <class Solve>
  void time_solves(Timing& timing, std::int64_t columns, Solve solve_for) {
    RightHandSides<T> x = system_.fresh_sides(tile_, columns);
    Outcome outcome;
    repeat(timing, runs_, progress_, [&] {
      x = system_.fresh_sides(tile_, columns);
      const double seconds = seconds_of([&] { outcome = solve_for(x); });
      require_ok(outcome);
      return seconds;
    });
    timing.flops = outcome.flops;
    timing.gates = {judge_solution(mesh_, options_, system_.a(), x), certificate<T>(outcome)};
  }

  Mesh& mesh_;
  const RunOptions& options_;
  const BenchProgress& progress_;
  std::int64_t tile_;
  std::int64_t runs_;
  SlabLayout layout_;
  System<T> system_;
  std::optional<LuFactor<T>> factor_;
};

}  // namespace

template <Scalar T>
BenchResult bench_lu(Mesh& mesh, std::int64_t n, std::int64_t tile, std::int64_t runs,
                     const RunOptions& options, const BenchProgress& progress) {
  BenchResult result;
  result.gemm = doctor::measure_gemm<T>(mesh, options);
  LuCalls<T> calls(mesh, n, tile, runs, options, progress);
  result.timings.push_back(calls.factor());
  result.timings.push_back(calls.solve_with_factor(1));
  result.timings.push_back(calls.solve_with_factor(many));
  result.timings.push_back(calls.one_call());
  return result;
}

template <Scalar T>
Timing time_lapack_lu(std::int64_t n, std::int64_t runs, const RunOptions& options,
                      const BenchProgress& progress) {
  Timing timing{.job = "lapack_getrf", .what = "LAPACK getrf, one core"};
  Mesh one = Mesh::host(1);
  System<T> system(one, n, 1, options, matgen::Kind::general);
  // With one slab and one block the order of elimination is LAPACK's.
  ShardedMatrix<T> a = system.fresh_matrix(n);
  std::vector<std::int64_t> rows;
  repeat(timing, runs, progress, [&] {
    if (options.cancel.stop_requested()) {
      throw Error(ErrorKind::cancelled, "interrupted");
    }
    a = system.fresh_matrix(n);
    return seconds_of([&] { rows = lapack_lu<T>(a.slab(0)); });
  });
  const auto size = static_cast<double>(n);
  timing.flops = (is_complex<T> ? 4.0 : 1.0) * 2.0 * size * size * size / 3.0;
  LuFactor<T> factor{a,  system.a(), std::make_shared<std::vector<std::int64_t>>(std::move(rows)),
                     {}, {},         {}};
  factor.log_modulus = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    factor.log_modulus += std::log(std::abs(std::complex<double>(a.slab(0)(i, i))));
  }
  timing.gates = judge_lu(one, options, system.a(), factor);
  return timing;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                   \
  template BenchResult bench_lu<T>(Mesh&, std::int64_t, std::int64_t, std::int64_t, \
                                   const RunOptions&, const BenchProgress&);        \
  template Timing time_lapack_lu<T>(std::int64_t, std::int64_t, const RunOptions&,  \
                                    const BenchProgress&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::cli::bench
