/// BiCGStab with a preconditioner from the right, made to survive its breakdowns. H. A. van der
/// Vorst, SIAM J. Sci. Stat. Comput. 13 (1992) 631.
///
///   v = A M p,  alpha = <r^, r> / <r^, v>,  x += alpha M p,  r -= alpha v   (the half step)
///   t = A M r,  omega = <t, r> / <t, t>,    x += omega M r,  r -= omega t
///   beta = (<r^, r>_new / <r^, r>) (alpha / omega),  p = r + beta (p - omega v)
#pragma once

#include "runtime/krylov/verdict.hpp"

namespace shardsolve::krylov::bicgstab {

enum Reduction : int { after_first, after_second, after_update, reductions };
/// <r^, v>; ||v||^2; ||M p||^2; ||p||^2; ||b||^2, or <M p, b>.
enum AfterFirst : int { h_v, v_v, y_y, p_p, b_b, sums_after_first };
/// ||r||^2 after the half step; <t, r>; ||t||^2; ||M r||^2.
enum AfterSecond : int { s_s, t_s, t_t, z_z, sums_after_second };
/// <r^, r>; ||r||^2; ||r^||^2.
enum AfterUpdate : int { h_r, r_r, h_h, sums_after_update };
/// coefficient[...].
enum CoefficientOf : int { plus_alpha, minus_alpha, plus_omega, minus_omega, of_beta, of_shadow };

SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void step_after_first(const Problem& problem,
                                                                     State& state,
                                                                     const StateRoom& room,
                                                                     const Number* sums) {
  if ((state.actions & act_load_ones) != 0) {
    judge_last_product(problem, state, room, sums[y_y].re, sums[v_v].re, sums[b_b]);
    return;
  }
  if (is_about_rounding(state)) {
    idle(state);
    judge_rounding(state, sums[v_v].re);
    return;
  }
  if ((state.actions & act_residual) != 0) {
    switch (judge_check(problem, state, room, sums[v_v].re, sums[y_y].re, sums[b_b].re)) {
      case AfterCheck::nothing:
        break;
      case AfterCheck::resume:
        state.plan = Plan::resume;
        break;
      case AfterCheck::begin:
        state.phase = Phase::iterate;
        state.actions |= act_take_residual | act_new_shadow;
        if (wants_other_shadow(problem, state)) {
          // Of norm about ||r||.
          const double parts = problem.is_complex != 0 ? 2.0 : 1.0;
          const double factor = root(3.0 / (parts * static_cast<double>(problem.n))) * state.norm_r;
          state.actions |= act_random_shadow;
          state.coefficient[of_shadow] = {factor, 0.0};
          state.seed = 16 + state.restarts;
        }
        break;
    }
    return;
  }
  ++state.matvecs;
  idle(state);
  if (!is_finite(sums[p_p])) {
    plan_end_by_overflow(state, Seen::under_way);
  } else if (!settle_scaling(problem, state.scaling_m, sums[p_p].re, sums[y_y].re) ||
             !settle_scaling(problem, state.scaling_a, sums[y_y].re, sums[v_v].re)) {
    plan_beginning(state);
  } else if (!is_finite(sums[y_y])) {
    plan_end(state, Status::nonfinite_preconditioner, 0.0, Seen::under_way);
  } else if (!is_finite(sums[v_v]) || !is_finite(sums[h_v])) {
    plan_end(state, Status::nonfinite_operator, 0.0, Seen::under_way);
  } else {
    const double norm_v = root(sums[v_v].re);
    const double scale = state.norm_shadow * norm_v;
    const double sigma = magnitude(sums[h_v]);
    if (sums[y_y].re > 0.0) {
      state.norm_a = larger(state.norm_a, norm_v / root(sums[y_y].re));
      note_gain(problem, state, root(sums[y_y].re), norm_v);
    }
    if (!(sigma > problem.breakdown * scale)) {
      plan_recovery(state, Status::breakdown_sigma, scale > 0.0 ? sigma / scale : 0.0,
                    Seen::under_way);
      return;
    }
    state.alpha = divided(state.rho, sums[h_v]);
    state.coefficient[plus_alpha] = state.alpha;
    state.coefficient[minus_alpha] = negated(state.alpha);
    state.actions |= act_half_step;
    state.skip_second_preconditioner = 0;
    state.skip_second_operator = 0;
  }
}

SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void step_after_second(const Problem& problem,
                                                                      State& state,
                                                                      const StateRoom& room,
                                                                      const Number* sums) {
  if ((state.actions & act_half_step) == 0) {
    return;  // what is to be done comes after the next reduction
  }
  ++state.matvecs;
  idle(state);
  if (!is_finite(sums[s_s])) {
    plan_end_by_overflow(state, Seen::under_way);
    return;
  }
  const double norm_s = root(sums[s_s].re);
  const double norm_t = root(sums[t_t].re);
  if (sums[z_z].re > 0.0 && is_finite(sums[t_t])) {
    state.norm_a = larger(state.norm_a, norm_t / root(sums[z_z].re));
    note_gain(problem, state, root(sums[z_z].re), norm_t);
  }
  state.norm_r = norm_s;
  state.omega = {};
  if (norm_s <= state.tolerance) {
    ++state.iteration;
    judge_iteration(problem, state, room);
  } else if (!is_finite(sums[z_z])) {
    plan_end(state, Status::nonfinite_preconditioner, 0.0, Seen::under_way);
  } else if (!is_finite(sums[t_t]) || !is_finite(sums[t_s])) {
    plan_end(state, Status::nonfinite_operator, 0.0, Seen::under_way);
  } else if (!(magnitude(sums[t_s]) > problem.breakdown * norm_t * norm_s)) {
    ++state.iteration;
    if (judge_iteration(problem, state, room)) {
      plan_recovery(state, Status::breakdown_omega,
                    norm_t > 0.0 ? magnitude(sums[t_s]) / (norm_t * norm_s) : 0.0);
    }
  } else {
    state.omega = divided(sums[t_s], sums[t_t]);
    state.coefficient[plus_omega] = state.omega;
    state.coefficient[minus_omega] = negated(state.omega);
    state.actions |= act_advance;
  }
}

/// p = r + beta (p - omega v), or p = r; or x is looked at meanwhile.
SHARDSOLVE_HOST_DEVICE inline void go_on(const Problem& problem, State& state, Number rho) {
  idle(state);
  state.phase = Phase::iterate;
  state.skip_operator = 0;
  if (state.is_fresh != 0) {
    state.actions |= act_new_direction;
  } else {
    state.actions |= act_next_direction;
    state.coefficient[of_beta] = times(divided(rho, state.rho), divided(state.alpha, state.omega));
  }
  state.is_fresh = 0;
  state.rho = rho;
  if (is_drift_check_due(problem, state)) {
    const std::uint32_t direction = state.actions;
    begin_check(problem, state, Check::drift);
    state.actions |= direction;
  } else {
    state.actions |= act_iterate;
    state.skip_preconditioner = 0;
  }
}

SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void step_after_update(const Problem& problem,
                                                                      State& state,
                                                                      const StateRoom& room,
                                                                      const Number* sums) {
  if (is_check_planned(state)) {
    return;
  }
  if (state.plan == Plan::resume) {
    state.plan = Plan::go_on;
    idle(state);
    state.phase = Phase::iterate;
    state.actions |= act_iterate;
    state.skip_operator = 0;
    state.skip_preconditioner = 0;
    return;
  }
  if (!is_finite(sums[r_r]) || !is_finite(sums[h_r])) {
    plan_end_by_overflow(state, Seen::under_way);
    return;
  }
  if ((state.actions & act_advance) != 0) {
    ++state.iteration;
    state.norm_r = root(sums[r_r].re);
    if (!judge_iteration(problem, state, room)) {
      return;
    }
  } else {
    state.norm_shadow = root(sums[h_h].re);
  }
  const double scale = state.norm_shadow * state.norm_r;
  if (!(magnitude(sums[h_r]) > problem.breakdown * scale)) {
    plan_recovery(state, Status::breakdown_rho, scale > 0.0 ? magnitude(sums[h_r]) / scale : 0.0);
    return;
  }
  go_on(problem, state, sums[h_r]);
}

}  // namespace shardsolve::krylov::bicgstab
