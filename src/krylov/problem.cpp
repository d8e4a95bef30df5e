#include "krylov/problem.hpp"

#include "core/each_dtype.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace shardsolve::krylov {
namespace {

constexpr std::int64_t max_records = std::int64_t{1} << 16;

}  // namespace

Problem problem_of(const Asked& asked, Dtype dtype) {
  const double u = with_dtype(dtype, []<class T>() { return unit_roundoff<T>; });
  const auto n = static_cast<double>(asked.n);
  Problem problem;
  problem.method = asked.method;
  problem.n = asked.n;
  problem.cycle = asked.method == Method::fgmres ? asked.restart : 0;
  problem.roundoff = u;
  // A window of several decades is safe, a narrower one in float32; docs/design/krylov.md.
  const bool is_single = dtype == Dtype::float32 || dtype == Dtype::complex64;
  const double most = is_single ? 5e3 : 9e5;
  problem.breakdown = std::clamp(16.0 * std::sqrt(n) * u, 90.0 * u, most * u);
  problem.asymmetry = 1e4 * u;
  problem.growth = asked.method == Method::bicgstab ? 1e4 : 1e8;
  problem.rtol = asked.rtol;
  problem.atol = asked.atol;
  problem.max_iterations = asked.max_iterations;
  problem.drift_every = std::max<std::int64_t>(
      50, std::llround(std::ceil(std::sqrt(static_cast<double>(asked.max_iterations)))));
  problem.records =
      asked.log ? std::min<std::int64_t>(max_records, 2 * asked.max_iterations + 16) : 0;
  problem.is_complex = dtype == Dtype::complex64 || dtype == Dtype::complex128 ? 1 : 0;
  problem.is_twofold = asked.is_twofold ? 1 : 0;
  problem.has_bounds = asked.has_bounds ? 1 : 0;
  problem.probes = problem.is_hermitian_method() ? 1 : 0;
  // Squares of residuals and directions that fall to u of those of the start fit with that.
  problem.usual_exponents = is_single ? 28 : 128;
  problem.guessed_exponent = is_single ? 80 : 600;
  problem.max_exponent = is_single ? 124 : 1020;
  return problem;
}

}  // namespace shardsolve::krylov
