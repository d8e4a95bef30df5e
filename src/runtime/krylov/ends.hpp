/// How a solve begins and ends on the device: from scans of b and x0 to the first state, and from
/// the last state to a report. For the CPU and CUDA.
#pragma once

#include "runtime/krylov/step.hpp"
#include "runtime/krylov_scan.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

namespace shardsolve::krylov {

using runtime::Scan;

/// With the scan of the next rank, whose rows begin at `first_row`; ranks in their order.
SHARDSOLVE_HOST_DEVICE inline void merge(Scan& whole, Scan next, std::int64_t first_row) {
  if (whole.first_nonfinite < 0 && next.first_nonfinite >= 0) {
    whole.first_nonfinite = first_row + next.first_nonfinite;
  }
  whole.exponent = next.exponent > whole.exponent ? next.exponent : whole.exponent;
  whole.least = next.least < whole.least ? next.least : whole.least;
}

/// The exponent by which b and x are worked on: times 2^that the largest part of b is in [1/2, 1).
SHARDSOLVE_HOST_DEVICE inline std::int64_t exponent_of(Scan in_b) { return -in_b.exponent; }

/// By how much that is too much for a guess that is much larger than b; State::guess_exponent.
/// `largest`: max_exponent of the real type.
SHARDSOLVE_HOST_DEVICE inline std::int64_t too_much_for(Scan in_x, std::int64_t exponent,
                                                        std::int64_t largest) {
  const std::int64_t most = largest / 4 - in_x.exponent;
  return !in_x.is_zero() && most < exponent ? exponent - most : 0;
}

/// State::guess_size of a guess that is worked on times 2^exponent.
SHARDSOLVE_HOST_DEVICE inline std::int64_t size_of_guess(Scan in_x, std::int64_t exponent) {
  return in_x.is_zero() ? 0 : in_x.exponent + exponent;
}

/// How a solve ends that need not begin; `running` if it has to.
SHARDSOLVE_HOST_DEVICE inline Status status_of(Scan in_b, Scan in_x) {
  return in_b.first_nonfinite >= 0   ? Status::nonfinite_rhs
         : in_x.first_nonfinite >= 0 ? Status::nonfinite_guess
         : in_b.is_zero()            ? Status::zero_rhs
                                     : Status::running;
}

/// A state, and what else is known of one solve.
struct SolveState {
  State state;
  std::int64_t exponent = 0;
  std::int64_t guess_exponent = 0;  ///< State::guess_exponent at first
  std::int64_t row = -1;            ///< of b or x0, where it is not finite
};

/// From scans of the whole vectors; in_x is {.exponent = Scan::zero} without a guess.
SHARDSOLVE_HOST_DEVICE inline SolveState begin_solve(const Problem& problem, Scan in_b, Scan in_x,
                                                     std::int64_t largest) {
  SolveState solve;
  solve.state.status = status_of(in_b, in_x);
  if (solve.state.status != Status::running) {
    solve.row = in_b.first_nonfinite >= 0 ? in_b.first_nonfinite : in_x.first_nonfinite;
    idle(solve.state);
    solve.state.phase = Phase::done;
    solve.state.actions = 0;
    solve.state.done = 1;
    return solve;
  }
  solve.exponent = exponent_of(in_b);
  solve.guess_exponent = too_much_for(in_x, solve.exponent, largest);
  begin(problem, solve.state, static_cast<int>(solve.exponent),
        static_cast<int>(solve.guess_exponent),
        static_cast<int>(size_of_guess(in_x, solve.exponent - solve.guess_exponent)));
  return solve;
}

/// Between the caller's b and x and the solve's.
enum class Way : std::uint8_t { b_to_solve, guess_to_solve, x_from_solve };

/// The power of two that a vector is multiplied by.
SHARDSOLVE_HOST_DEVICE inline int exponent_of(const SolveState& solve, Way way) {
  const auto exponent = static_cast<int>(solve.exponent);
  return way == Way::b_to_solve       ? exponent
         : way == Way::guess_to_solve ? exponent - static_cast<int>(solve.guess_exponent)
                                      : -exponent;
}

/// Scans of all ranks as one; null: of a vector that is 0.
SHARDSOLVE_HOST_DEVICE inline Scan merged(const Scan* scans, const std::int64_t* boundaries,
                                          std::int64_t ranks) {
  Scan whole;
  whole.exponent = Scan::zero;
  for (std::int64_t r = 0; scans != nullptr && r < ranks; ++r) {
    merge(whole, scans[r], boundaries[r]);
  }
  return whole;
}

/// By how much the residual may change, in units of b's, where each part of x, scaled, loses what
/// is below the range once it is scaled back. ||A|| as the solve has seen it may be too small:
/// without random probes by as much as a preconditioner makes up for.
template <class Real>
SHARDSOLVE_HOST_DEVICE inline double loss_below_range(const Problem& problem, const State& state,
                                                      std::int64_t exponent) {
  using Limits = std::numeric_limits<Real>;
  const double norm_is_too_small = problem.is_hermitian_method() ? 1e3
                                   : Limits::digits > 30         ? 1e180
                                                                 : 1e12;
  const std::int64_t half_of_last = exponent + Limits::min_exponent - Limits::digits - 1;
  return norm_is_too_small * state.norm_a *
         ldexp(root(static_cast<double>(problem.n)), static_cast<int>(half_of_last));
}

/// x, scaled, does not fit its dtype once it is scaled back by so much: its largest part is above
/// the range, or so far below that digits are lost; or smaller ones lose digits that A may make as
/// large as the residual, unless that is of x without them (round_x). Nor does what is not finite
/// already.
template <class Real>
SHARDSOLVE_HOST_DEVICE inline bool leaves_range(const Problem& problem, const State& state,
                                                Scan in_x, std::int64_t exponent) {
  using Limits = std::numeric_limits<Real>;
  if (in_x.first_nonfinite >= 0 || in_x.is_zero()) {
    return in_x.first_nonfinite >= 0;
  }
  const std::int64_t at = in_x.exponent - exponent;
  if (at > Limits::max_exponent || at < Limits::min_exponent) {
    return true;
  }
  const bool is_converged =
      state.status >= Status::converged_rtol && state.status <= Status::happy_breakdown;
  if (is_converged && exponent <= problem.max_exponent) {
    return false;
  }
  const double room =
      state.true_norm < state.tolerance ? state.tolerance - state.true_norm : state.true_norm;
  return in_x.least - exponent < Limits::min_exponent &&
         loss_below_range<Real>(problem, state, exponent) > room;
}

/// The numbers of a verdict: see krylov::Result, whose words these are.
struct Report {
  std::int32_t status = 0;  ///< Status
  std::int32_t is_marginal = 0;
  std::int64_t iterations = 0;
  std::int64_t matvecs = 0;
  std::int64_t restarts = 0;
  double residual = 0.0;
  double tolerance = 0.0;
  double margin = 0.0;
  std::int64_t at_iteration = 0;  ///< where what ended the solve was seen
  double value = 0.0;             ///< what was seen
  std::int64_t row = -1;
  double condition = 0.0;
  double error_estimate = 0.0;
  std::int32_t has_null_constants = 0;  ///< A maps the vector of ones to 0
  std::int32_t is_hermitian = 0;        ///< A is, as the method has tested
  std::int32_t is_of_constants = 0;     ///< singular_operator is said of the vector of ones
  std::int32_t has_least_residual = 0;  ///< x has the least one that there is
  std::int32_t is_minres_alone = 0;     ///< minres without M
  std::int32_t is_twofold = 0;          ///< products had twice the digits where it mattered
  double doubt = 0.0;                   ///< by how much the residual may be wrong
};
/// How many numbers of a report there are in the dtype, too; see end_solve().
constexpr std::int64_t report_figures = 5;

constexpr double endless = std::numeric_limits<double>::infinity();

/// See Result::margin.
SHARDSOLVE_HOST_DEVICE inline double margin_of(const Problem& problem, const State& state,
                                               bool is_converged) {
  if (!is_converged) {
    return state.tolerance > 0 ? state.true_norm / state.tolerance : 0.0;
  }
  const double reach = state.norm_a * state.norm_x;
  const double known = state.rounding >= 0.0 ? smaller(reach, state.rounding) : reach;
  const double attainable = problem.roundoff * (known + state.norm_b);
  const std::int64_t used = state.iteration > 1 ? state.iteration : 1;
  // What may be attained is an estimate, and below the tolerance it has been.
  return larger(1.0,
                smaller(static_cast<double>(problem.max_iterations) / static_cast<double>(used),
                        attainable > 0 ? state.tolerance / attainable : endless));
}

/// See Result::error_estimate. A solve that has not begun, or whose x is 0, tells nothing.
SHARDSOLVE_HOST_DEVICE inline double error_estimate_of(const State& state, Status status) {
  if (status == Status::zero_rhs) {
    return 0.0;
  }
  const bool is_known = state.norm_b > 0 && state.norm_x > 0 && status != Status::overflow;
  return is_known ? state.norm_inverse * (state.true_norm / state.norm_x) : endless;
}

/// Whether x is 0 at the end, whatever the solve has: nobody has looked at the guess, or its
/// product was not finite, or x does not fit its dtype.
SHARDSOLVE_HOST_DEVICE inline bool ends_as_zero(const State& state, Status status) {
  const bool has_not_begun = status == Status::zero_rhs || status == Status::nonfinite_rhs ||
                             status == Status::nonfinite_guess;
  const bool has_known_residual = state.norm_b > 0 && is_finite(state.true_norm);
  return has_not_begun || status == Status::overflow || (state.done != 0 && !has_known_residual);
}

/// See Result::residual.
SHARDSOLVE_HOST_DEVICE inline double residual_of(const State& state, Status status) {
  if (status == Status::zero_rhs) {
    return 0.0;
  }
  if (status == Status::nonfinite_rhs) {
    return endless;
  }
  const bool has_begun = state.norm_b > 0;
  return has_begun && !ends_as_zero(state, status) ? state.true_norm / state.norm_b : 1.0;
}

/// `status`: the state's, or overflow.
SHARDSOLVE_HOST_DEVICE inline Report report_of(const Problem& problem, const State& state,
                                               Status status, std::int64_t row) {
  const bool is_converged = status >= Status::converged_rtol && status <= Status::happy_breakdown;
  const bool has_begun = state.norm_b > 0;
  const double scale = has_begun ? state.norm_b : 1.0;
  Report report;
  report.status = static_cast<std::int32_t>(status);
  report.iterations = state.iteration;
  report.matvecs = state.matvecs;
  report.restarts = state.restarts;
  report.residual = residual_of(state, status);
  report.tolerance = has_begun ? state.tolerance / scale : problem.rtol;
  report.margin = has_begun ? margin_of(problem, state, is_converged) : endless;
  report.is_marginal = report.margin < 2.0 ? 1 : 0;
  report.at_iteration = state.pending_iteration;
  const bool is_norm = status == Status::accuracy_limit || status == Status::singular_operator;
  report.value = is_norm ? state.pending_value / scale : state.pending_value;
  report.row = row;
  // Without probes the largest ||A p|| / ||p|| may be far from ||A||.
  const double condition = problem.is_hermitian_method() ? state.norm_a * state.norm_inverse : 0.0;
  report.condition = condition > 0 && has_begun ? larger(1.0, condition) : 0.0;
  report.error_estimate = error_estimate_of(state, status);
  report.has_null_constants = state.has_null_constants;
  report.is_hermitian = problem.is_hermitian_method() ? 1 : 0;
  report.is_of_constants = state.is_of_constants;
  report.has_least_residual = state.has_least_residual;
  report.is_minres_alone = problem.method == Method::minres && state.lanczos.has_no_m != 0 ? 1 : 0;
  report.is_twofold = problem.is_twofold;
  report.doubt = ends_as_zero(state, status) ? 0.0 : doubt(problem, state) / scale;
  return report;
}

/// The end of a solve, from the scans of x, scaled, by all ranks. Changes the status to overflow if
/// that is what happened.
template <class Real>
SHARDSOLVE_HOST_DEVICE inline void end_solve(const Problem& problem, const Scan* of_x,
                                             std::int64_t ranks, SolveState& solve, Report& report,
                                             Real* figures) {
  Scan whole;
  whole.exponent = Scan::zero;
  for (std::int64_t r = 0; r < ranks; ++r) {
    merge(whole, of_x[r], 0);
  }
  solve.exponent -= solve.state.scaling_a.exponent;  // of x, as it is from here on
  if (leaves_range<Real>(problem, solve.state, whole, solve.exponent)) {
    solve.state.status = Status::overflow;
  }
  report = report_of(problem, solve.state, solve.state.status, solve.row);
  figures[0] = static_cast<Real>(report.residual);
  figures[1] = static_cast<Real>(report.tolerance);
  figures[2] = static_cast<Real>(report.margin);
  figures[3] = static_cast<Real>(report.condition);
  figures[4] = static_cast<Real>(report.error_estimate);
}

/// Whether b and x are taken as 0: at the beginning, of a solve that does not begin; at the end.
SHARDSOLVE_HOST_DEVICE inline bool is_zero_vector(const SolveState& solve) {
  return ends_as_zero(solve.state, solve.state.status);
}

}  // namespace shardsolve::krylov
