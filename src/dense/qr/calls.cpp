// The public calls of qr.hpp: each checks its arguments and runs one program on all ranks.

#include "core/each_dtype.hpp"
#include "dense/qr/lstsq_in_steps.hpp"
#include "dense/qr/plan.hpp"
#include "dense/qr/program.hpp"
#include "programs/apart.hpp"
#include "programs/public_call.hpp"
#include "programs/require_reachable.hpp"
#include "runtime/qr_kernels.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/plan.hpp>
#include <shardsolve/qr.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

namespace shardsolve::dense::qr {
namespace {

template <Scalar T>
void require_shape(const RowBlocks<T>& a) {
  if (a.layout().size() == 0 || a.columns() == 0) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("a matrix of {} x {} was given: rows and columns are needed",
                            a.layout().size(), a.columns()));
  }
}

/// R goes to `r`, or to the host.
template <Scalar T>
QrFactor<T> factor_on(Mesh& mesh, const RowBlocks<T>& a, const std::optional<RowBlocks<T>>& r,
                      QrMode mode, const RunOptions& options) {
  require_shape(a);
  if (mode != QrMode::reduced && mode != QrMode::r) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("mode = {} is no value of QrMode: pass QrMode::reduced or QrMode::r",
                            static_cast<int>(mode)));
  }
  if (a.layout().size() < a.columns()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("qr of a matrix of {} x {}: at least as many rows as columns are "
                            "needed; of fewer rows take the adjoint, or least_squares",
                            a.layout().size(), a.columns()));
  }
  const bool dealt = is_dealt(a.layout().size(), a.columns());
  const auto found = std::make_shared<QrFactor<T>>();
  const Plan plan = dealt ? plan_dealt(a.layout(), dtype_of<T>, a.columns())
                          : plan_by_passes(a.layout(), dtype_of<T>, a.columns());
  const programs::PublicCall call{"qr", mesh, a.layout(), plan, options, /*has_tiles=*/false};
  const Outcome outcome = call.run([a, r, mode, dealt, found](mesh::Rank& rank) {
    static_cast<void>(rank.kernels<runtime::QrKernels<T>>());  // throws where there are none
    programs::require_reachable(rank, a);
    FactorRequest<T> request{.mode = mode, .dealt = dealt, .r = std::nullopt};
    if (r) {
      programs::require_reachable(rank, *r);
      programs::Apart().writes("A", a).writes("R", *r).require(rank);
      request.r = r->block(rank.index());
    }
    QrFactor<T> mine = factor_rows<T>(rank, a.layout(), a.block(rank.index()), request);
    const Outcome of_all = mine.outcome;
    if (rank.leads()) {
      *found = std::move(mine);
    }
    return of_all;
  });
  found->outcome = outcome;
  return *found;
}

template <Scalar T>
LeastSquares<T> solve(const char* name, Mesh& mesh, const RowBlocks<T>& a, const RowBlocks<T>& b,
                      Request request, const RunOptions& options) {
  require_shape(a);
  if (!(a.layout().boundaries() == b.layout().boundaries())) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("A has {} rows and B {}, or they are cut at other places: use one "
                            "layout for both",
                            a.layout().size(), b.layout().size()));
  }
  request.dealt = solves_dealt(a.layout().size(), a.columns(), request.damping, mesh.memory());
  const std::int64_t least = std::min(a.layout().size(), a.columns());
  if (request.by_singular_values && is_in_steps(least, mesh.ranks(), mesh.memory())) {
    return lstsq_in_steps<T>(mesh, a, b, request, options);
  }
  const auto found = std::make_shared<LeastSquares<T>>();
  const Plan plan = plan_at_once(a.layout(), dtype_of<T>, a.columns(), b.columns());
  const programs::PublicCall call{name, mesh, a.layout(), plan, options, /*has_tiles=*/false};
  const Outcome outcome = call.run([a, b, request, found](mesh::Rank& rank) {
    static_cast<void>(rank.kernels<runtime::QrKernels<T>>());  // throws where there are none
    programs::require_reachable(rank, a);
    programs::require_reachable(rank, b);
    LeastSquares<T> mine =
        solve_rows<T>(rank, a.layout(), a.block(rank.index()), b.block(rank.index()), request);
    const Outcome of_all = mine.outcome;
    if (rank.leads()) {
      *found = std::move(mine);
    }
    return of_all;
  });
  found->outcome = outcome;
  return *found;
}

}  // namespace
}  // namespace shardsolve::dense::qr

namespace shardsolve {

template <Scalar T>
QrFactor<T> qr(Mesh& mesh, RowBlocks<T> a, QrMode mode, const RunOptions& options) {
  return dense::qr::factor_on<T>(mesh, a, std::nullopt, mode, options);
}

template <Scalar T>
Outcome qr(Mesh& mesh, RowBlocks<T> a, RowBlocks<T> r, QrMode mode, const RunOptions& options) {
  if (!(a.layout().boundaries() == r.layout().boundaries()) || a.columns() != r.columns()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("A is {} x {} and the place for R {} x {}, or they are cut at other "
                            "places: [R; 0] is as A is",
                            a.layout().size(), a.columns(), r.layout().size(), r.columns()));
  }
  return dense::qr::factor_on<T>(mesh, a, r, mode, options).outcome;
}

template <Scalar T>
LeastSquares<T> least_squares(Mesh& mesh, const RowBlocks<T>& a, const RowBlocks<T>& b,
                              const RunOptions& options) {
  return dense::qr::solve<T>("least_squares", mesh, a, b, {}, options);
}

template <Scalar T>
LeastSquares<T> lstsq(Mesh& mesh, const RowBlocks<T>& a, const RowBlocks<T>& b,
                      std::optional<double> rcond, const RunOptions& options) {
  if (rcond && (!(*rcond > 0.0) || !(*rcond < 1.0))) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("rcond is {}: a number between 0 and 1 is needed, or none for NumPy's "
                            "max(m, n) eps",
                            *rcond));
  }
  const auto most = static_cast<double>(std::max(a.layout().size(), a.columns()));
  return dense::qr::solve<T>(
      "lstsq", mesh, a, b,
      {.by_singular_values = true, .rcond = rcond.value_or(2.0 * unit_roundoff<T> * most)},
      options);
}

template <Scalar T>
LeastSquares<T> ridge(Mesh& mesh, const RowBlocks<T>& a, const RowBlocks<T>& b, double eps,
                      const RunOptions& options) {
  const double damping = std::sqrt(eps);
  using Limits = std::numeric_limits<RealOf<T>>;
  if (!(eps > 0.0) || !(damping >= double{Limits::min()}) || !(damping <= double{Limits::max()})) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("eps is {}: a positive number is needed, with a root in the range of "
                            "the dtype",
                            eps));
  }
  return dense::qr::solve<T>("ridge", mesh, a, b, {.damping = damping}, options);
}

#define SHARDSOLVE_INSTANTIATE(T)                                                         \
  template QrFactor<T> qr(Mesh&, RowBlocks<T>, QrMode, const RunOptions&);                \
  template Outcome qr(Mesh&, RowBlocks<T>, RowBlocks<T>, QrMode, const RunOptions&);      \
  template LeastSquares<T> least_squares(Mesh&, const RowBlocks<T>&, const RowBlocks<T>&, \
                                         const RunOptions&);                              \
  template LeastSquares<T> lstsq(Mesh&, const RowBlocks<T>&, const RowBlocks<T>&,         \
                                 std::optional<double>, const RunOptions&);               \
  template LeastSquares<T> ridge(Mesh&, const RowBlocks<T>&, const RowBlocks<T>&, double, \
                                 const RunOptions&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve
