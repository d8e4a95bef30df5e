/// Conjugate gradients with a preconditioner. M. R. Hestenes and E. Stiefel, J. Res. Nat. Bur.
/// Standards 49 (1952) 409.
///
///   q = A p,  alpha = <r, z> / <p, q>,  r -= alpha q,
///   z = M r,  beta = <r, z>_new / <r, z>,  x += alpha p,  p = z + beta p
///
/// x is not needed before, and changes where p is read anyway.
#pragma once

#include "runtime/krylov/verdict.hpp"

namespace shardsolve::krylov::cg {

// Reductions of a round, and what their sums are.
enum Reduction : int { after_operator, after_preconditioner, reductions };
/// <p, q>, of a probe <v, q>; ||p||^2; ||q||^2; ||b||^2, or <p, b>.
enum AfterOperator : int { p_q, p_p, q_q, b_b, sums_after_operator };
/// ||r||^2; <r, z>, of a probe <u, z>; ||z||^2.
enum AfterPreconditioner : int { r_r, r_z, z_z, sums_after_preconditioner };
// coefficient[0] is alpha, [1] is -alpha, [2] is beta.

SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void step_after_check(const Problem& problem,
                                                                     State& state,
                                                                     const StateRoom& room,
                                                                     const Number* sums) {
  switch (judge_check(problem, state, room, sums[q_q].re, sums[p_p].re, sums[b_b].re)) {
    case AfterCheck::nothing:
      break;
    case AfterCheck::resume:
      state.plan = Plan::resume;
      break;
    case AfterCheck::begin:
      state.phase = Phase::iterate;
      state.actions |= act_take_residual;
      state.skip_preconditioner = 0;
      break;
  }
}

/// Whether A maps p to 0, to rounding: <p, A p> is 0 beside ||M A|| <p, M^-1 p>, and A p is small
/// beside ||A|| ||p||, as it is then if A has no negative eigenvalue. As <p, r> = <r, M r>, no x
/// has a residual of less than <r, M r> / ||p||. ||p|| in the norm of M^-1 comes of p = z + beta p.
SHARDSOLVE_HOST_DEVICE inline bool is_null_direction(const Problem& problem, State& state,
                                                     double curvature, double p_squared,
                                                     double norm_q) {
  const double square = state.direction_norm;
  if (square == p_squared) {  // <r, M r> = ||p||^2, p = M r: there is no M
    state.norm_ma = larger(state.norm_ma, state.norm_a);
  }
  state.norm_ma = larger(state.norm_ma, curvature / square);
  return absolute(curvature) <= 16.0 * problem.roundoff * state.norm_ma * square &&
         norm_q <= 16.0 * root(problem.roundoff) * state.norm_a * root(p_squared);
}

SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void step_after_operator(const Problem& problem,
                                                                        State& state,
                                                                        const StateRoom& room,
                                                                        const Number* sums) {
  if ((state.actions & (act_probe_first | act_probe_second)) != 0) {
    judge_operator_probe(problem, state, room, sums[p_q], sums[p_p].re, sums[q_q].re);
    return;
  }
  if ((state.actions & act_load_ones) != 0) {
    judge_last_product(problem, state, room, sums[p_p].re, sums[q_q].re, sums[b_b]);
    return;
  }
  if (is_about_rounding(state)) {
    idle(state);
    judge_rounding(state, sums[q_q].re);
    return;
  }
  if ((state.actions & act_residual) != 0) {
    step_after_check(problem, state, room, sums);
    return;
  }
  ++state.matvecs;
  idle(state);
  const double norm_p = root(sums[p_p].re);
  const double norm_q = root(sums[q_q].re);
  if (!is_finite(sums[q_q]) || !is_finite(sums[p_q])) {
    if (is_finite(norm_p)) {
      plan_end(state, Status::nonfinite_operator, 0.0, Seen::under_way);
    } else {
      plan_end_by_overflow(state, Seen::under_way);
    }
    return;
  }
  state.norm_a = larger(state.norm_a, norm_q / norm_p);
  const double curvature = sums[p_q].re;
  if (curvature > 0.0) {
    note_gain(problem, state, sums[p_p].re, curvature);
  }
  const double relative = without_scaling(curvature / sums[p_p].re, state.scaling_a);
  const Form form = judge_form(problem, sums[p_q], norm_p, norm_q, state.norm_a);
  if (form != Form::asymmetric &&
      is_null_direction(problem, state, curvature, sums[p_p].re, norm_q) &&
      state.rho.re > norm_p * least_sensible(problem, state)) {
    plan_end(state, Status::singular_operator, state.rho.re / norm_p, Seen::under_way);
    return;
  }
  switch (form) {
    case Form::asymmetric:
      plan_end(state, Status::nonsymmetric_operator, asymmetry_of(sums[p_q], norm_p, state.norm_a),
               Seen::under_way);
      break;
    case Form::negative:
      state.norm_inverse = 0.0;  // there are directions of no curvature at all
      plan_end(state, Status::indefinite_operator, relative, Seen::under_way);
      break;
    case Form::flat:
      plan_recovery(state, Status::indefinite_operator, relative, Seen::under_way);
      break;
    case Form::hidden:
      plan_recovery(state, Status::stagnated, 0.0, Seen::under_way);
      break;
    case Form::positive:
      state.alpha = divided(state.rho, {curvature, 0.0});
      state.coefficient[0] = state.alpha;
      state.coefficient[1] = negated(state.alpha);
      state.actions |= act_advance;
      state.skip_preconditioner = 0;
      break;
  }
}

/// p = z + beta p, or x is looked at meanwhile.
SHARDSOLVE_HOST_DEVICE inline void go_on(const Problem& problem, State& state, Number rho) {
  idle(state);
  state.phase = Phase::iterate;
  state.skip_operator = 0;
  if (state.is_fresh != 0) {
    state.actions |= act_new_direction;
    state.direction_norm = rho.re;
  } else {
    state.actions |= act_next_direction;
    const double beta = rho.re / state.rho.re;
    state.coefficient[2] = {beta, 0.0};
    state.direction_norm = fused_multiply_add(beta * beta, state.direction_norm, rho.re);
  }
  state.is_fresh = 0;
  state.rho = rho;
  if (is_drift_check_due(problem, state)) {
    const std::uint32_t direction = state.actions;
    begin_check(problem, state, Check::drift);
    state.actions |= direction | act_keep_direction;
  } else {
    state.actions |= act_iterate;
  }
}

SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void step_after_preconditioner(
    const Problem& problem, State& state, const StateRoom& room, const Number* sums) {
  if ((state.actions & (act_probe_first | act_probe_second)) != 0) {
    judge_preconditioner_probe(problem, state, room, sums[r_z], sums[r_r].re, sums[z_z].re);
    return;
  }
  if (is_check_planned(state)) {
    return;
  }
  if (state.plan == Plan::resume) {
    state.plan = Plan::go_on;
    idle(state);
    state.phase = Phase::iterate;
    state.skip_operator = 0;
    state.actions |= act_take_kept | act_iterate;
    return;
  }
  const bool advanced = (state.actions & act_advance) != 0;
  state.collects = advanced ? 1 : 0;
  if (!is_finite(sums[r_r])) {
    plan_end_by_overflow(state, Seen::under_way);
    return;
  }
  if (advanced) {
    ++state.iteration;
    state.norm_r = root(sums[r_r].re);
    if (!judge_iteration(problem, state, room)) {
      return;
    }
  }
  if (!is_finite(sums[z_z]) || !is_finite(sums[r_z])) {
    plan_end(state, Status::nonfinite_preconditioner, 0.0);
    return;
  }
  const double norm_z = root(sums[z_z].re);
  const double relative = without_scaling(sums[r_z].re / sums[r_r].re, state.scaling_m);
  state.norm_m = larger(state.norm_m, norm_z / state.norm_r);
  switch (judge_form(problem, sums[r_z], state.norm_r, norm_z, state.norm_m)) {
    case Form::asymmetric:
      plan_end(state, Status::nonsymmetric_preconditioner,
               asymmetry_of(sums[r_z], state.norm_r, state.norm_m));
      break;
    case Form::negative:
      plan_end(state, Status::indefinite_preconditioner, relative);
      break;
    case Form::flat:
      plan_recovery(state, Status::indefinite_preconditioner, relative);
      break;
    case Form::hidden:
      plan_recovery(state, Status::stagnated, 0.0);
      break;
    case Form::positive:
      go_on(problem, state, {sums[r_z].re, 0.0});
      break;
  }
}

}  // namespace shardsolve::krylov::cg
