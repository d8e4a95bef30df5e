/// The verdict machine: what all methods share of the way from start to done.
///
/// A step takes the sums of one reduction and says by `actions`, `skip_...` and `coefficient` what
/// the kernels before the next one do. "Converged" is said of a recomputed residual only; a
/// breakdown ends a solve after three restarts without gain only; a NaN or an infinity ends it with
/// the name of what made it. Whatever happened, x ends as the best iterate kept, or as
/// 0 if that is nearer.
#pragma once

#include "runtime/krylov/certainty.hpp"
#include "runtime/krylov/form.hpp"
#include "runtime/krylov/scaling.hpp"
#include "runtime/krylov/singular.hpp"
#include "runtime/krylov/state.hpp"

#include <limits>

namespace shardsolve::krylov {

/// A residual that was recomputed and is below this share of the last one has gained.
constexpr double gain = 0.99;
constexpr int checks_to_end = 3;       ///< in vain, in a row
constexpr int other_shadow_after = 2;  ///< likewise: bicgstab goes on with another r^
/// A breakdown after so many iterations is not in vain either: it is another one than the last.
constexpr std::int64_t far_iterations = 50;
/// The best iterate is kept anew when the norm has fallen by so much.
constexpr double keep_best_factor = 0.1;
/// The recurrence has drifted if the true norm is larger by this factor.
constexpr double drift_factor = 2.0;
constexpr double endless_rounding = 1e300;

SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void write_record(const Problem& problem,
                                                                 State& state,
                                                                 const StateRoom& room, Event event,
                                                                 double norm) {
  if (problem.records > 0) {
    Record& record = room.records[state.records % problem.records];
    record.iteration = state.iteration;
    record.event = static_cast<std::int32_t>(event);
    record.status = static_cast<std::int32_t>(event == Event::none    ? Status::running
                                              : event == Event::ended ? state.status
                                                                      : state.pending);
    record.residual = norm / state.norm_b;
    record.rho = state.rho;
    record.alpha = state.alpha;
    record.omega = state.omega;
    ++state.records;
  }
}

/// Nothing is to be done until the next step says so.
SHARDSOLVE_HOST_DEVICE inline void idle(State& state) {
  state.actions = act_always;
  state.skip_operator = 1;
  state.skip_preconditioner = 1;
  state.skip_second_operator = 1;
  state.skip_second_preconditioner = 1;
  scale_products(state);
}

SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void finish(const Problem& problem, State& state,
                                                           const StateRoom& room, Status status,
                                                           double norm) {
  idle(state);
  state.phase = Phase::done;
  state.status = status;
  state.true_norm = norm;
  write_record(problem, state, room, Event::ended, norm);
  state.actions = 0;
  state.done = 1;
}

/// The residual of x is recomputed in the next round. x becomes the best iterate if the solve ends
/// and that is better, or if the method begins anew and x is worse by far: bicgstab in particular
/// passes long stretches above its start, and would not get beyond them from there.
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void begin_check(const Problem& problem,
                                                                State& state, Check check) {
  idle(state);
  state.check = check;
  state.plan = Plan::go_on;
  if (check == Check::rounding) {
    state.phase = Phase::verify;
    state.actions |= act_load_x;
    round_x(problem, state);
    state.skip_operator = runtime::product_rounding;
    return;
  }
  if (check != Check::constants && (state.keeps_rounding == 0 || check != state.checked)) {
    state.rounding = -1.0;  // of another x
  }
  state.keeps_rounding = 0;
  state.phase = check == Check::start      ? Phase::start
                : check == Check::recovery ? Phase::restart
                                           : Phase::verify;
  if (check == Check::constants) {
    state.actions |= act_load_ones;
    state.skip_operator = runtime::usual_product;
    return;
  }
  state.actions |= act_load_x | act_residual;
  state.skip_operator = problem.is_twofold != 0 ? runtime::twofold_product : runtime::usual_product;
  if (check == Check::start) {
    state.actions |= act_measure_b;
    scale_guess(problem, state);
  }
  round_x(problem, state);
  if (check == Check::start) {
    return;
  }
  if (state.ends_with_zero != 0) {
    state.actions |= act_scale_x;
    state.coefficient[of_scale_x] = {0.0, 0.0};
    return;
  }
  const double accepted = state.best_norm * (check == Check::recovery ? problem.growth : 1.0);
  if ((check == Check::last || check == Check::recovery) && !(state.norm_r <= accepted)) {
    state.actions |= act_restore_best;
    state.norm_r = state.best_norm;
    state.keep_best = 0;
  }
}

/// After this reduction: a check, in the next round.
SHARDSOLVE_HOST_DEVICE inline void plan_check(State& state, Check check) {
  idle(state);
  state.check = check;
  state.plan = Plan::check;
}

/// After this reduction: the solve begins, as a product needs another power of two.
SHARDSOLVE_HOST_DEVICE inline void plan_beginning(State& state) {
  idle(state);
  state.norm_inverse = 0.0;  // a guess told of it, of the product as it was
  state.plan = Plan::begin_anew;
}

/// Whether what was seen is about the iteration that was counted last or about the one under way.
enum class Seen : std::int32_t { after_iteration, under_way };

SHARDSOLVE_HOST_DEVICE inline void note_reason(State& state, Status status, double value,
                                               Seen seen) {
  state.pending = status;
  state.pending_iteration = state.iteration + (seen == Seen::under_way ? 1 : 0);
  state.pending_value = value;
}

/// The solve ends with `status` when the residual of the best iterate is known, unless that is
/// within tolerance.
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void plan_end(State& state, Status status,
                                                             double value,
                                                             Seen seen = Seen::after_iteration) {
  note_reason(state, status, value, seen);
  plan_check(state, Check::last);
}

/// `status` unless restarts help.
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void plan_recovery(
    State& state, Status status, double value, Seen seen = Seen::after_iteration) {
  note_reason(state, status, value, seen);
  plan_check(state, Check::recovery);
}

/// x is of no use.
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void plan_end_by_overflow(State& state, Seen seen) {
  plan_end(state, Status::diverged, 0.0, seen);
  state.norm_r = 1e300;
}

SHARDSOLVE_HOST_DEVICE inline bool is_nonfinite(Status status) {
  return status == Status::nonfinite_operator || status == Status::nonfinite_preconditioner;
}

SHARDSOLVE_HOST_DEVICE inline Status converged_status(const Problem& problem, const State& state,
                                                      double norm) {
  if (state.check == Check::start) {
    return Status::converged_at_start;
  }
  if (state.is_exhausted != 0) {
    return Status::happy_breakdown;
  }
  return norm <= problem.rtol * state.norm_b ? Status::converged_rtol : Status::converged_atol;
}

/// ||b - A x|| below which rounding in A x alone may keep it.
SHARDSOLVE_HOST_DEVICE inline double attainable(const Problem& problem, const State& state) {
  return 16.0 * problem.roundoff * fused_multiply_add(state.norm_a, state.norm_x, state.norm_b);
}

/// Whether rounding alone may keep ||b - A x|| at `norm`, when the recurrence says that it is far
/// less. ||A|| is known from the products seen, and those of bicgstab and fgmres with a good
/// preconditioner are with smooth vectors: it may be much larger.
SHARDSOLVE_HOST_DEVICE inline bool is_kept_up_by_rounding(const Problem& problem,
                                                          const State& state, double norm) {
  const double unseen = problem.probes != 0 ? 1.0 : larger(1.0, 1e-3 / root(problem.roundoff));
  return norm <= unseen * attainable(problem, state);
}

/// A tolerance that can be met: of what has been, with room for the rounding of another run.
SHARDSOLVE_HOST_DEVICE inline double what_is_attainable(const Problem& problem, const State& state,
                                                        double norm) {
  return 2.0 * (smaller(norm, state.best_norm) + doubt(problem, state));
}

/// Nothing more is to be gained. "Attainable" is not said of what x = 0 has as well.
SHARDSOLVE_HOST_DEVICE inline void note_floor(const Problem& problem, State& state, double norm,
                                              bool is_by_rounding) {
  const double least = what_is_attainable(problem, state, norm);
  note_reason(state,
              is_by_rounding && least < state.norm_b ? Status::accuracy_limit : Status::stagnated,
              least, Seen::after_iteration);
}

/// Likewise where the residual is small enough as computed, but not for certain.
SHARDSOLVE_HOST_DEVICE inline void note_doubt(const Problem& problem, State& state, double norm) {
  note_reason(state, Status::accuracy_limit, what_is_attainable(problem, state, norm),
              Seen::after_iteration);
}

SHARDSOLVE_HOST_DEVICE inline bool wants_other_shadow(const Problem& problem, const State& state) {
  return problem.method == Method::bicgstab && state.checks_in_vain >= other_shadow_after;
}

/// What the method has to do after a check.
enum class AfterCheck : std::int32_t {
  nothing,  ///< the solve is done, or a check follows
  begin,    ///< begin anew: r = b - A x
  resume,   ///< go on as if nothing had been
};

/// The least residual that would have been enough, or that rounding allows.
SHARDSOLVE_HOST_DEVICE inline double least_sensible(const Problem& problem, const State& state) {
  return larger(state.tolerance, attainable(problem, state));
}

/// The solve has failed, and its best iterate has this norm: what for?
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void end_in_failure(const Problem& problem,
                                                                   State& state,
                                                                   const StateRoom& room,
                                                                   double norm) {
  // The limit may have come before the next steps that would have gained.
  const bool was_in_vain = state.pending != Status::max_iterations ||
                           state.iteration - state.least_squares_iteration >= far_iterations;
  // What rounding in A x leaves is in the directions that A makes small, too.
  constexpr double beyond_rounding = 4.0;
  const bool is_true =
      norm > beyond_rounding * attainable(problem, state) &&
      (state.least_squares_in_2_norm == 0 || norm <= drift_factor * state.least_squares_norm);
  if (state.least_squares_norm > 0.0 && state.least_squares_are_sure != 0 && is_true &&
      was_in_vain && may_be_of_singular_operator(state.pending)) {
    state.pending = Status::singular_operator;
    state.has_least_residual = state.least_squares_in_2_norm;
    state.pending_value = state.least_squares_in_2_norm != 0 ? norm : 0.0;
  }
  if (may_be_of_singular_operator(state.pending)) {
    state.true_norm = norm;
    plan_check(state, Check::constants);
  } else {
    finish(problem, state, room, state.pending, norm);
  }
}

/// minres has found a residual that A maps to 0, as far as it can tell. If A is not singular, only
/// nearly so, the recomputed residual `norm` falls from there. True if instead the recurrence alone
/// does, or if nothing has come of as many iterations as there had been.
SHARDSOLVE_HOST_DEVICE inline bool is_still_least_squares(State& state, double norm) {
  const double known = state.least_squares_norm;
  const std::int64_t since = state.iteration - state.least_squares_iteration;
  if (norm < gain * known || (since == 0 && norm > drift_factor * known)) {
    state.least_squares_norm = 0.0;
    state.least_squares_are_sure = 0;
  }
  const bool is_long_ago = since >= 2 * far_iterations && since >= state.least_squares_iteration;
  return state.least_squares_norm > 0.0 && since > 0 &&
         (is_long_ago || norm > drift_factor * state.norm_r);
}

/// Of what rounding does to a product with x: ||y||^2 of product_rounding. The check that asked for
/// it is made again, as its residual is gone.
SHARDSOLVE_HOST_DEVICE inline void judge_rounding(State& state, double squared) {
  ++state.matvecs;
  state.rounding = is_finite(squared) ? root(squared) : endless_rounding;
  state.keeps_rounding = 1;
  plan_check(state, state.checked);
}

SHARDSOLVE_HOST_DEVICE inline bool is_about_rounding(const State& state) {
  return (state.actions & (act_load_x | act_residual)) == act_load_x;
}

/// Of A times the vector of ones; see judge_constants(). The solve is done.
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void judge_last_product(const Problem& problem,
                                                                       State& state,
                                                                       const StateRoom& room,
                                                                       double ones, double product,
                                                                       Number of_b) {
  judge_constants(problem, state, least_sensible(problem, state), ones, product, of_b);
  finish(problem, state, room, state.pending, state.true_norm);
}

/// Judges ||b - A x||^2, ||x||^2 and, at the start, ||b||^2.
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline AfterCheck judge_check(
    const Problem& problem, State& state, const StateRoom& room, double residual_squared,
    double x_squared, double b_squared) {
  ++state.matvecs;
  const bool is_restored = (state.actions & act_restore_best) != 0;
  idle(state);
  const double norm = root(residual_squared);
  if (state.check == Check::start) {
    state.restored_norm = norm;
    state.norm_b = root(b_squared);
    state.tolerance = larger(problem.rtol * state.norm_b, state.atol);
    state.best_norm = norm;
    state.base_norm = norm;
    state.norm_r = norm;
  }
  if (state.check == Check::start && state.guess_exponent != guess_is_left_out &&
      x_squared != 0.0 && !(norm * problem.roundoff <= state.norm_b)) {
    state.guess_exponent = guess_is_left_out;
    plan_check(state, Check::start);
    return AfterCheck::nothing;
  }
  if (!is_finite(residual_squared)) {
    if (!is_nonfinite(state.pending)) {
      state.pending = Status::nonfinite_operator;
      state.pending_iteration = state.iteration;
    }
    constexpr double endless_norm = std::numeric_limits<double>::infinity();
    const double of_guess = x_squared == 0.0 ? state.norm_b : endless_norm;
    finish(problem, state, room, state.pending,
           state.check == Check::start ? of_guess : state.norm_r);
    return AfterCheck::nothing;
  }
  state.norm_x = root(x_squared);
  note_gain(problem, state, state.norm_x, state.norm_b + norm);
  if (!is_nonfinite(state.pending)) {
    if (is_within(problem, state, norm)) {
      finish(problem, state, room, converged_status(problem, state, norm), norm);
      return AfterCheck::nothing;
    }
    if (wants_rounding(problem, state, norm)) {
      state.checked = state.check;
      plan_check(state, Check::rounding);
      return AfterCheck::nothing;
    }
    if (state.check == Check::candidate && norm <= state.tolerance &&
        doubt(problem, state) >= allowed(problem, state)) {  // no residual would be small enough
      note_doubt(problem, state, norm);
      end_in_failure(problem, state, room, norm);
      return AfterCheck::nothing;
    }
    if (norm == 0.0) {  // there is nothing to go on with, and rounding may hide more than allowed
      note_doubt(problem, state, norm);
      finish(problem, state, room, state.pending, norm);
      return AfterCheck::nothing;
    }
  }
  if (state.check == Check::last) {
    // What the recurrence said of x was wrong by far, and a better one was kept: that one is looked
    // at in the next round. It is x already if norm_r is its norm.
    if (state.best_is_recomputed != 0 && norm > drift_factor * state.best_norm &&
        state.norm_r != state.best_norm) {
      state.norm_r = norm;
      plan_check(state, Check::last);
      return AfterCheck::nothing;
    }
    // So was it of what was kept.
    if (gain * norm > state.norm_b && x_squared > 0.0) {
      state.ends_with_zero = 1;
      state.least_squares_norm = 0.0;  // of another x
      state.least_squares_are_sure = 0;
      plan_check(state, Check::last);
      return AfterCheck::nothing;
    }
    end_in_failure(problem, state, room, norm);
    return AfterCheck::nothing;
  }
  state.true_norm = norm;
  if (state.check != Check::start && is_still_least_squares(state, norm)) {
    state.norm_r = norm;
    plan_end(state, Status::stagnated, 0.0);
    return AfterCheck::nothing;
  }
  if (state.check != Check::start && norm > drift_factor * state.norm_r) {
    // The recurrence is wrong, and so was the norm for which x was put aside since. If that is by
    // rounding, it will be so again.
    if (is_kept_up_by_rounding(problem, state, norm)) {
      state.recurrence_floor = norm;
    }
    if (state.best_is_recomputed == 0) {
      state.best_norm = larger(state.best_norm, norm);
    }
  }
  if (norm <= state.best_norm || state.check == Check::start) {
    state.keep_best = 1;
    state.best_is_recomputed = 1;
  }
  if (state.check == Check::drift) {
    state.last_drift_check = state.iteration;
    write_record(problem, state, room, Event::residual_recomputed, norm);
    if (norm <= drift_factor * state.norm_r) {
      return AfterCheck::resume;
    }
  }
  if (state.check != Check::start) {
    ++state.restarts;
    const bool went_far =
        state.check == Check::recovery && state.iteration - state.base_iteration >= far_iterations;
    state.checks_in_vain =
        norm <= gain * state.base_norm || went_far ? 0 : state.checks_in_vain + 1;
    if (is_restored && norm == state.restored_norm) {
      // From the same x the method would go the same way, to the bit, and so on without end.
      state.checks_in_vain =
          problem.method == Method::bicgstab ? other_shadow_after : checks_to_end;
    }
    if (state.check != Check::recovery) {
      note_floor(problem, state, norm,
                 norm <= state.tolerance || is_kept_up_by_rounding(problem, state, norm));
    }
    if (state.checks_in_vain >= checks_to_end) {
      state.norm_r = norm;
      plan_end(state, state.pending, state.pending_value);
      return AfterCheck::nothing;
    }
    if (state.iteration >= problem.max_iterations) {
      state.norm_r = norm;
      if (state.pending == Status::accuracy_limit) {  // more iterations would not help
        plan_end(state, state.pending, state.pending_value);
      } else {
        plan_end(state, Status::max_iterations, 0.0);
      }
      return AfterCheck::nothing;
    }
    if (is_restored) {
      state.restored_norm = norm;
    }
    write_record(problem, state, room,
                 wants_other_shadow(problem, state) ? Event::shadow_changed : Event::restarted,
                 norm);
  }
  state.pending = Status::running;
  state.base_norm = norm;
  state.base_iteration = state.iteration;
  state.norm_r = norm;
  state.last_drift_check = state.iteration;
  state.is_fresh = 1;
  state.is_exhausted = 0;
  return AfterCheck::begin;
}

/// After a step of the method, whose norm_r is new: true if the method goes on, else a check is
/// planned.
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline bool judge_iteration(const Problem& problem,
                                                                    State& state,
                                                                    const StateRoom& room) {
  write_record(problem, state, room, Event::none, state.norm_r);
  // Below, what the recurrence says is about nothing but rounding, and so is all that it finds.
  const double last_of_sense = problem.roundoff * problem.roundoff * state.norm_b;
  if (state.norm_r <= larger(state.tolerance, last_of_sense)) {
    plan_check(state, Check::candidate);
    return false;
  }
  // The residual of minres is not computed from its x: in a space where A is nearly singular x may
  // be endlessly worse, so that a recomputed residual alone says what is best.
  if (problem.method != Method::minres && state.norm_r < keep_best_factor * state.best_norm &&
      state.norm_r > state.recurrence_floor) {
    state.keep_best = 1;
    state.best_is_recomputed = 0;
  }
  if (state.iteration >= problem.max_iterations) {
    plan_end(state, Status::max_iterations, 0.0);
    return false;
  }
  if (state.norm_r > problem.growth * state.best_norm) {
    plan_recovery(state, Status::diverged, state.norm_r / state.best_norm);
    return false;
  }
  return true;
}

SHARDSOLVE_HOST_DEVICE inline bool is_drift_check_due(const Problem& problem, const State& state) {
  return state.iteration - state.last_drift_check >= problem.drift_every;
}

/// At the end of a round: best = x, if that was to be done and x is not changed before.
SHARDSOLVE_HOST_DEVICE inline void keep_best_now(State& state) {
  if (state.keep_best != 0 && state.done == 0) {
    state.actions |= act_save_best;
    state.best_norm = state.norm_r;
    state.best_iteration = state.iteration;
    state.keep_best = 0;
  }
}

/// The last step of a round does nothing of the method's own if this is true.
SHARDSOLVE_HOST_DEVICE inline bool is_check_planned(const State& state) {
  return state.plan == Plan::check || state.plan == Plan::begin_anew;
}

/// The caller wants no more, or the rounds are too many: true if the solve ends for that.
SHARDSOLVE_HOST_DEVICE inline bool is_ended_from_outside(const Problem& problem, State& state,
                                                         bool stop) {
  const bool is_last = state.check == Check::last || state.check == Check::constants ||
                       (state.check == Check::rounding && state.checked == Check::last);
  if (is_last && (state.phase == Phase::verify || state.plan == Plan::check)) {
    return false;  // on its way
  }
  const bool is_endless = state.rounds > 4 * problem.max_iterations + 64;
  return (stop || is_endless) && state.phase != Phase::start;
}

// Probes: with random vectors u and v, is v^H A u the conjugate of u^H A v, and likewise M?

SHARDSOLVE_HOST_DEVICE inline void begin_probe(State& state, Action which) {
  idle(state);
  state.phase = Phase::start;
  state.plan = Plan::go_on;
  state.actions |= which;
  state.skip_operator = 0;
  state.skip_preconditioner = 0;
}

SHARDSOLVE_HOST_DEVICE inline bool are_conjugates(const Problem& problem, Number a, Number b,
                                                  double scale) {
  return magnitude(minus(a, conjugated(b))) <= problem.asymmetry * scale;
}

/// A solve that has not begun: nobody has looked at the guess.
SHARDSOLVE_HOST_DEVICE inline void finish_at_once(const Problem& problem, State& state,
                                                  const StateRoom& room, Status status,
                                                  double value) {
  state.pending_value = value;
  state.norm_b = 1.0;
  finish(problem, state, room, status, 1.0);
  state.norm_b = 0.0;  // not known
}

/// With product = <v, A u> of the first probe, <u, A v> of the second. False if the solve is done.
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline bool judge_operator_probe(
    const Problem& problem, State& state, const StateRoom& room, Number product, double in_squared,
    double out_squared) {
  ++state.matvecs;
  const bool is_first = (state.actions & act_probe_first) != 0;
  if (!settle_scaling(problem, state.scaling_a, in_squared, out_squared)) {
    plan_beginning(state);
    return false;
  }
  if (!is_finite(out_squared)) {
    finish_at_once(problem, state, room, Status::nonfinite_operator, 0.0);
    return false;
  }
  const int at = is_first ? 0 : 2;
  state.probe_norms[at] = root(in_squared);
  state.probe_norms[at + 1] = root(out_squared);
  // Of a random vector: about the 2-norm of a row.
  state.norm_a = larger(state.norm_a, state.probe_norms[at + 1] / state.probe_norms[at]);
  if (is_first) {
    state.probe_a = product;
    return true;
  }
  const double scale = state.norm_a * (state.probe_norms[0] * state.probe_norms[2]);
  if (!are_conjugates(problem, state.probe_a, product, scale)) {
    finish_at_once(problem, state, room, Status::nonsymmetric_operator,
                   magnitude(minus(state.probe_a, conjugated(product))) / scale);
    return false;
  }
  return true;
}

/// Likewise <u, M v> and <v, M u>; goes on to the next probe or to the start.
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void judge_preconditioner_probe(
    const Problem& problem, State& state, const StateRoom& room, Number product, double in_squared,
    double out_squared) {
  const bool is_first = (state.actions & act_probe_first) != 0;
  if (!settle_scaling(problem, state.scaling_m, in_squared, out_squared)) {
    plan_beginning(state);
    return;
  }
  if (!is_finite(out_squared)) {
    finish_at_once(problem, state, room, Status::nonfinite_preconditioner, 0.0);
    return;
  }
  if (is_first) {
    state.probe_m = product;
    state.probe_norms[4] = root(out_squared);
    begin_probe(state, act_probe_second);
    return;
  }
  const double* const norms = state.probe_norms;
  state.norm_m = larger(norms[4] / norms[2], root(out_squared) / norms[0]);
  const double scale = state.norm_m * (norms[0] * norms[2]);
  if (!are_conjugates(problem, state.probe_m, product, scale)) {
    finish_at_once(problem, state, room, Status::nonsymmetric_preconditioner,
                   magnitude(minus(state.probe_m, conjugated(product))) / scale);
    return;
  }
  begin_check(problem, state, Check::start);
}

}  // namespace shardsolve::krylov
