#include "eigh.hpp"

#include "core/each_dtype.hpp"
#include "doctor/measure.hpp"
#include "lapack_eigh.hpp"
#include "system.hpp"

#include <shardsolve/device_memory.hpp>
#include <shardsolve/eigh.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/plan.hpp>

#include <fmt/format.h>

#include <complex>
#include <limits>
#include <utility>

namespace shardsolve::cli::bench {
namespace {

constexpr matgen::Kind kind = matgen::Kind::hermitian;

template <Scalar T>
class EighCalls {
 public:
  EighCalls(Mesh& mesh, std::int64_t n, std::int64_t runs, const RunOptions& options,
            const BenchProgress& progress)
      : mesh_(mesh),
        options_(options),
        progress_(progress),
        n_(n),
        runs_(runs),
        system_(mesh, n, 1, options, kind) {}

  /// Keeps its eigenvalues for the others to be compared with.
  Timing pairs() {
    Timing timing = time("pairs", "all eigenpairs", {});
    all_ = found_.values;
    judge_pairs(timing);
    return timing;
  }

  Timing tenth() {
    const std::int64_t count = std::max<std::int64_t>(n_ / 10, 1);
    Timing timing = time("pairs_tenth", fmt::format("the smallest {} of them", count),
                         {.indices = EighRequest::Indices{0, count}});
    judge_pairs(timing);
    timing.gates.push_back(same_values());
    return timing;
  }

  Timing values() {
    Timing timing = time("values", "eigenvalues alone", {.vectors = false});
    timing.gates = {same_values()};
    return timing;
  }

 private:
  Timing time(std::string job, std::string what, const EighRequest& request) {
    Timing timing{.job = std::move(job), .what = std::move(what)};
    repeat(timing, runs_, progress_, [&] {
      const ShardedMatrix<T> a = system_.fresh_matrix(tile());
      const double seconds = seconds_of([&] { found_ = eigh(mesh_, a, request, options_); });
      require_ok(found_.outcome);
      return seconds;
    });
    timing.flops = found_.outcome.flops;
    timing.bytes = plan_eigh(system_.a().layout(), dtype_of<T>, request.vectors).bytes();
    return timing;
  }

  /// Of the last call; its eigenvectors are where fresh_matrix() was.
  void judge_pairs(Timing& timing) {
    timing.gates =
        judge_eigenpairs(mesh_, options_, system_.a(), system_.last_matrix(), found_.values);
    timing.gates.push_back(certificate("certified residual", found_.outcome.residual, 100.0));
    timing.gates.push_back(
        certificate("certified orthogonality", found_.outcome.orthogonality, 1000.0));
  }

  Gate same_values() const {
    return judge_eigenvalues(mesh_, options_, system_.a(), found_.values, all_);
  }

  static Gate certificate(std::string name, std::optional<double> value, double limit) {
    constexpr double not_there = std::numeric_limits<double>::quiet_NaN();
    return {std::move(name), value.value_or(not_there) / unit_roundoff<T>, limit};
  }

  std::int64_t tile() const { return system_.a().layout().tile(); }  // none of its own

  Mesh& mesh_;
  const RunOptions& options_;
  const BenchProgress& progress_;
  std::int64_t n_;
  std::int64_t runs_;
  System<T> system_;
  Eigenvalues<T> found_;
  std::vector<RealOf<T>> all_;
};

}  // namespace

template <Scalar T>
BenchResult bench_eigh(Mesh& mesh, std::int64_t n, std::int64_t runs, const RunOptions& options,
                       const BenchProgress& progress) {
  BenchResult result;
  result.gemm = doctor::measure_gemm<T>(mesh, options);
  EighCalls<T> calls(mesh, n, runs, options, progress);
  result.timings.push_back(calls.pairs());
  result.timings.push_back(calls.tenth());
  result.timings.push_back(calls.values());
  return result;
}

template <Scalar T>
Timing time_lapack_eigh(std::int64_t n, std::int64_t runs, const RunOptions& options,
                        const BenchProgress& progress) {
  Timing timing{.job = "lapack_heevd",
                .what = fmt::format("LAPACK {}, one core", is_complex<T> ? "heevd" : "syevd")};
  Mesh one = Mesh::host(1);
  System<T> system(one, n, 1, options, kind);
  std::vector<RealOf<T>> values;
  repeat(timing, runs, progress, [&] {
    if (options.cancel.stop_requested()) {
      throw Error(ErrorKind::cancelled, "interrupted");
    }
    const ShardedMatrix<T> a = system.fresh_matrix(n);
    return seconds_of([&] { values = lapack_eigh<T>(a.slab(0)); });
  });
  timing.gates = judge_eigenpairs(one, options, system.a(), system.last_matrix(), values);
  return timing;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                          \
  template BenchResult bench_eigh<T>(Mesh&, std::int64_t, std::int64_t, const RunOptions&, \
                                     const BenchProgress&);                                \
  template Timing time_lapack_eigh<T>(std::int64_t, std::int64_t, const RunOptions&,       \
                                      const BenchProgress&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::cli::bench
