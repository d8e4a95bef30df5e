/// MINRES with a positive definite preconditioner. C. C. Paige and M. A. Saunders, SIAM J. Numer.
/// Anal. 12 (1975) 617; with M as in H. Elman, D. Silvester and A. Wathen, Finite Elements and Fast
/// Iterative Solvers (2014), algorithm 4.1.
///
///   z = M v / gamma,  delta = <z, A z>
///   v+ = A z - (delta / gamma) v - (gamma / gamma-) v-,  gamma+ = sqrt(<M v+, v+>)
///   w+ = (z - a3 w- - a2 w) / a1,  x += c+ eta w+,  eta+ = -s+ eta
///
/// |eta| is the residual in the norm of M. That of the tolerance is the 2-norm, so the residual
/// itself is kept: with Givens rotations its direction is d+ = -s+ d + c+ v+ / gamma+, therefore
///   r+ = s+^2 r + (c+ eta+ / gamma+) v+.
/// Updates of x and r begin the round behind.
#pragma once

#include "runtime/krylov/verdict.hpp"

namespace shardsolve::krylov::minres {

enum Reduction : int { after_operator, after_preconditioner, reductions };
/// <z, q>, of a probe <v, q>; ||z||^2; ||q||^2; ||b||^2, or <z, b>; ||r||^2; ||w||^2.
enum AfterOperator : int { z_q, z_z, q_q, b_b, r_r, w_w, sums_after_operator };
/// <M v, v>, of a probe <z, M v>; ||M v||^2; ||v||^2.
enum AfterPreconditioner : int { y_v, y_y, v_v, sums_after_preconditioner };
/// coefficient[...]: of v and v- in v+; then, over both, of w-, w, their sum; of w+ in x; of r and
/// v+ in r; of M v in z.
enum CoefficientOf : int {
  of_v,
  of_v_before,
  of_w_before = 0,
  of_w,
  of_both,
  of_step,
  of_r,
  of_v_in_r,
  of_z,
};

SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void step_after_operator(const Problem& problem,
                                                                        State& state,
                                                                        const StateRoom& room,
                                                                        const Number* sums) {
  if ((state.actions & (act_advance | act_collect)) != 0 && state.lanczos.has_no_m != 0) {
    note_gain(problem, state, root(sums[w_w].re), 1.0);  // A w is a unit vector
  }
  if ((state.actions & (act_probe_first | act_probe_second)) != 0) {
    judge_operator_probe(problem, state, room, sums[z_q], sums[z_z].re, sums[q_q].re);
    return;
  }
  if ((state.actions & act_load_ones) != 0) {
    judge_last_product(problem, state, room, sums[z_z].re, sums[q_q].re, sums[b_b]);
    return;
  }
  if ((state.actions & act_advance) != 0) {
    if (!is_finite(sums[r_r])) {
      ++state.matvecs;
      plan_end_by_overflow(state, Seen::under_way);
      return;
    }
    ++state.iteration;
    state.norm_r = root(sums[r_r].re);
    if (!judge_iteration(problem, state, room)) {
      ++state.matvecs;
      return;
    }
  }
  if (is_about_rounding(state)) {
    idle(state);
    judge_rounding(state, sums[q_q].re);
    return;
  }
  if ((state.actions & act_residual) != 0) {
    switch (judge_check(problem, state, room, sums[q_q].re, sums[z_z].re, sums[b_b].re)) {
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
    return;
  }
  ++state.matvecs;
  idle(state);
  if (!is_finite(sums[z_z])) {
    plan_end_by_overflow(state, Seen::under_way);
    return;
  }
  if (!is_finite(sums[q_q]) || !is_finite(sums[z_q])) {
    plan_end(state, Status::nonfinite_operator, 0.0, Seen::under_way);
    return;
  }
  Lanczos& l = state.lanczos;
  l.product_norm = root(sums[q_q].re);
  const double norm_z = root(sums[z_z].re);
  state.norm_a = larger(state.norm_a, l.product_norm / norm_z);
  note_gain(problem, state, norm_z, l.product_norm);
  if (judge_form(problem, sums[z_q], norm_z, l.product_norm, state.norm_a) == Form::asymmetric) {
    plan_end(state, Status::nonsymmetric_operator, asymmetry_of(sums[z_q], norm_z, state.norm_a),
             Seen::under_way);
    return;
  }
  l.delta = sums[z_q].re;
  state.alpha = {l.delta, 0.0};
  state.coefficient[of_v] = {-(l.delta / l.gamma), 0.0};
  state.coefficient[of_v_before] = {-(l.gamma / l.gamma_before), 0.0};
  state.actions |= act_half_step;
  state.skip_preconditioner = 0;
}

/// The rotations that gamma+ brings, and the updates of the round behind.
SHARDSOLVE_HOST_DEVICE inline void rotate(State& state, double gamma_next) {
  Lanczos& l = state.lanczos;
  const double a0 = fused_multiply_add(l.cosine, l.delta, -(l.cosine_before * l.sine * l.gamma));
  const double a1 = root(fused_multiply_add(a0, a0, gamma_next * gamma_next));
  const double a2 = fused_multiply_add(l.sine, l.delta, l.cosine_before * l.cosine * l.gamma);
  const double a3 = l.sine_before * l.gamma;
  const double cosine = a0 / a1;
  const double sine = gamma_next / a1;
  const double eta = -sine * l.eta;
  state.coefficient[of_w_before] = {-a3, 0.0};
  state.coefficient[of_w] = {-a2, 0.0};
  state.coefficient[of_both] = {1.0 / a1, 0.0};
  state.coefficient[of_step] = {cosine * l.eta, 0.0};
  state.coefficient[of_r] = {sine * sine, 0.0};
  state.coefficient[of_v_in_r] = {gamma_next > 0.0 ? cosine * eta / gamma_next : 0.0, 0.0};
  state.coefficient[of_z] = {gamma_next > 0.0 ? 1.0 / gamma_next : 0.0, 0.0};
  l.cosine_before = l.cosine;
  l.cosine = cosine;
  l.sine_before = l.sine;
  l.sine = sine;
  l.gamma_before = l.gamma;
  l.gamma = gamma_next;
  l.eta = eta;
  state.rho = {eta, 0.0};
}

/// Does A map the residual to 0? Before the rotations that gamma+ brings: if A is singular and b
/// outside of its range, they divide by rounding, and x is lost to the null space. True if they
/// would divide by 0. In the norm of M, ||A r|| / ||r|| is `ratio` (S.-C. Choi, C. C. Paige, M. A.
/// Saunders, SIAM J. Sci. Comput. 33 (2011) 1810); in practice it does not get far below
/// sqrt(u) ||A||. A matrix that is only nearly singular may be small there too: see
/// is_still_least_squares(). Of a singular one <r, A r> is smaller by another sqrt(u), as only the
/// square of what is left of A's range is in it: |<r, A r>| / ||r||^2 = |c a0| there. Of a definite
/// one it is never below the least eigenvalue.
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline bool look_for_least_squares(const Problem& problem,
                                                                           State& state,
                                                                           double gamma_next,
                                                                           bool has_no_m) {
  Lanczos& l = state.lanczos;
  const double a0 = fused_multiply_add(l.cosine, l.delta, -(l.cosine_before * l.sine * l.gamma));
  const double below = l.cosine * gamma_next;
  const double ratio = root(fused_multiply_add(a0, a0, below * below));
  const bool is_first = l.first_root < 0.0;
  l.first_root = is_first ? ratio : l.first_root;
  const double column = root(fused_multiply_add(l.delta, l.delta, gamma_next * gamma_next));
  state.norm_ma = larger(state.norm_ma, has_no_m ? larger(column, state.norm_a) : column);
  const bool is_null = ratio <= 4.0 * problem.roundoff * state.norm_ma;
  const bool is_small =
      ratio <= 4.0 * root(problem.roundoff) * state.norm_ma && ratio <= 0.01 * l.first_root;
  if ((is_null || is_small) && absolute(l.cosine * a0) <= 8.0 * problem.roundoff * state.norm_ma) {
    state.least_squares_are_sure = 1;
  }
  if ((is_null || is_small) && state.least_squares_norm == 0.0) {
    state.least_squares_norm = state.norm_r;
    state.least_squares_iteration = state.iteration;
    state.least_squares_in_2_norm = has_no_m ? 1 : 0;
    if (has_no_m && state.norm_r < state.best_norm) {
      state.keep_best = 1;
      state.best_is_recomputed = 0;
    }
  }
  return is_null;
}

SHARDSOLVE_HOST_DEVICE inline void start_lanczos(State& state, double gamma) {
  state.lanczos = {};
  state.lanczos.gamma = gamma;
  state.lanczos.gamma_before = 1.0;
  state.lanczos.eta = gamma;
  state.lanczos.cosine = 1.0;
  state.lanczos.cosine_before = 1.0;
  state.coefficient[of_z] = {1.0 / gamma, 0.0};
  state.rho = {gamma, 0.0};
}

SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void step_after_preconditioner(
    const Problem& problem, State& state, const StateRoom& room, const Number* sums) {
  if ((state.actions & (act_probe_first | act_probe_second)) != 0) {
    judge_preconditioner_probe(problem, state, room, sums[y_v], sums[v_v].re, sums[y_y].re);
    return;
  }
  if (is_check_planned(state)) {
    return;
  }
  if (state.plan == Plan::resume) {
    state.plan = Plan::go_on;
    idle(state);
    state.phase = Phase::iterate;
    state.actions |= act_keep_direction | act_iterate;
    state.skip_operator = 0;
    return;
  }
  if (!is_finite(sums[v_v])) {
    plan_end_by_overflow(state, Seen::under_way);
    return;
  }
  if (!is_finite(sums[y_y]) || !is_finite(sums[y_v])) {
    plan_end(state, Status::nonfinite_preconditioner, 0.0,
             state.is_fresh != 0 ? Seen::after_iteration : Seen::under_way);
    return;
  }
  const double norm_v = root(sums[v_v].re);
  const double norm_y = root(sums[y_y].re);
  const double square = sums[y_v].re;
  const bool is_fresh = (state.actions & act_take_residual) != 0;
  Lanczos& l = state.lanczos;
  const bool is_exhausted = !is_fresh && norm_v <= problem.breakdown * l.product_norm;
  if (!is_exhausted) {
    const Seen seen = is_fresh ? Seen::after_iteration : Seen::under_way;
    state.norm_m = larger(state.norm_m, norm_y / norm_v);
    switch (judge_form(problem, sums[y_v], norm_v, norm_y, state.norm_m)) {
      case Form::asymmetric:
        plan_end(state, Status::nonsymmetric_preconditioner,
                 asymmetry_of(sums[y_v], norm_v, state.norm_m), seen);
        return;
      case Form::negative:
      case Form::flat:
        plan_end(state, Status::indefinite_preconditioner,
                 without_scaling(square / sums[v_v].re, state.scaling_m), seen);
        return;
      case Form::hidden:
        plan_recovery(state, Status::stagnated, 0.0, seen);
        return;
      case Form::positive:
        break;
    }
  }
  if (!is_fresh && look_for_least_squares(problem, state, is_exhausted ? 0.0 : root(square),
                                          l.has_no_m != 0 && square == sums[v_v].re)) {
    plan_recovery(state, Status::stagnated, 0.0, Seen::under_way);
    return;
  }
  if (square != sums[v_v].re) {
    l.has_no_m = 0;
  }
  idle(state);
  state.phase = Phase::iterate;
  state.skip_operator = 0;
  if (is_fresh) {
    start_lanczos(state, root(square));
    l.has_no_m = square == sums[v_v].re ? 1 : 0;
    state.is_fresh = 0;
    state.actions |= act_new_direction | act_iterate;
    return;
  }
  if (is_exhausted) {
    // Singular in this space: the step would be endless.
    const double a0 = fused_multiply_add(l.cosine, l.delta, -(l.cosine_before * l.sine * l.gamma));
    if (!(absolute(a0) > problem.breakdown * l.product_norm * l.gamma)) {
      plan_recovery(state, Status::stagnated, 0.0, Seen::under_way);
      return;
    }
    rotate(state, 0.0);
    state.is_exhausted = 1;
    ++state.iteration;
    state.norm_r = 0.0;  // says the recurrence
    write_record(problem, state, room, Event::none, state.norm_r);
    begin_check(problem, state, Check::candidate);
    state.actions |= act_collect;
    return;
  }
  rotate(state, root(square));
  const bool is_due = is_drift_check_due(problem, state);
  if (is_due) {
    begin_check(problem, state, Check::drift);
  } else {
    state.actions |= act_iterate;
  }
  state.actions |= act_advance | act_next_direction;
}

}  // namespace shardsolve::krylov::minres
