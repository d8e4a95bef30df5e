// A chain of methods: the next one where the last one said why it cannot.

#include "core/each_dtype.hpp"

#include <shardsolve/device_memory.hpp>
#include <shardsolve/krylov.hpp>

#include <iterator>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::krylov {
namespace fallback {
namespace {

/// Statuses that another method may not share. A limit of iterations or of rounding, numbers that
/// are not finite and a caller who has had enough are no reasons for one.
bool is_reason(Status status) {
  switch (status) {
    case Status::stagnated:
    case Status::diverged:
    case Status::breakdown_rho:
    case Status::breakdown_sigma:
    case Status::breakdown_omega:
    case Status::breakdown_hessenberg:
    case Status::indefinite_operator:
    case Status::indefinite_preconditioner:
    case Status::nonsymmetric_operator:
    case Status::nonsymmetric_preconditioner:
    case Status::singular_operator:
      return true;
    default:
      return false;
  }
}

/// None if there is no reason for another one, or none left.
std::optional<Method> next_method(Method method, Status status) {
  if (!is_reason(status)) {
    return std::nullopt;
  }
  const bool minres_may = status != Status::nonsymmetric_operator &&
                          status != Status::nonsymmetric_preconditioner &&
                          status != Status::indefinite_preconditioner;
  switch (method) {
    case Method::cg:
      return minres_may ? Method::minres : Method::bicgstab;
    case Method::minres:  // its x has the least residual, if A is singular
      return status == Status::singular_operator ? std::nullopt : std::optional(Method::bicgstab);
    case Method::bicgstab:
      return Method::fgmres;
    case Method::fgmres:
      return std::nullopt;
  }
  return std::nullopt;
}

template <Scalar T, class Solve>
Result solve_in_turn(Mesh& mesh, const RightHandSides<T>& x, Options options, Solve solve) {
  std::optional<RightHandSides<T>> guess;
  if (options.use_guess) {
    guess = make_right_hand_sides<T>(mesh, x.layout(), x.columns());
    copy(mesh, x, *guess);
  }
  std::vector<Attempt> attempts;
  std::vector<LogRecord> log;
  double seconds = 0.0;
  double flops = 0.0;
  for (;;) {
    Result result = solve(options);
    attempts.push_back({options.method, result.status, result.iterations, result.matvecs,
                        result.restarts, result.residual, result.message});
    for (LogRecord& record : result.log) {
      record.attempt = std::ssize(attempts);
      log.push_back(record);
    }
    seconds += result.outcome.seconds;
    flops += result.outcome.flops;
    const auto next = next_method(options.method, result.status);
    if (!next) {
      result.attempts = std::move(attempts);
      result.log = std::move(log);
      result.outcome.seconds = seconds;
      result.outcome.flops = flops;
      return result;
    }
    options.method = *next;
    // x is the best iterate so far, and never worse than the guess, if somebody has looked at that.
    options.use_guess = true;
    if (guess && result.iterations == 0) {
      copy(mesh, *guess, x);
    }
  }
}

}  // namespace
}  // namespace fallback

template <Scalar T>
Result solve_auto(Mesh& mesh, const Operator<T>& a, const RightHandSides<T>& b,
                  const RightHandSides<T>& x, const Options& options, const RunOptions& run) {
  return fallback::solve_in_turn(
      mesh, x, options, [&](const Options& now) { return solve(mesh, a, b, x, now, run); });
}

template <Scalar T>
Result solve_auto(Mesh& mesh, const Operator<T>& a, const Operator<T>& preconditioner,
                  const RightHandSides<T>& b, const RightHandSides<T>& x, const Options& options,
                  const RunOptions& run) {
  return fallback::solve_in_turn(mesh, x, options, [&](const Options& now) {
    return solve(mesh, a, preconditioner, b, x, now, run);
  });
}

#define SHARDSOLVE_INSTANTIATE(T)                                                                \
  template Result solve_auto(Mesh&, const Operator<T>&, const RightHandSides<T>&,                \
                             const RightHandSides<T>&, const Options&, const RunOptions&);       \
  template Result solve_auto(Mesh&, const Operator<T>&, const Operator<T>&,                      \
                             const RightHandSides<T>&, const RightHandSides<T>&, const Options&, \
                             const RunOptions&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
