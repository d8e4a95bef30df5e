/// Flexible GMRES, restarted. Y. Saad, SIAM J. Sci. Comput. 14 (1993) 461. With the same M every
/// time it is GMRES with M from the right.
///
///   z_j = M v_j,  q = A z_j,  h = V^H q,  q -= V h, and both once more (Gram-Schmidt twice),
///   h_{j+1,j} = ||q||,  v_{j+1} = q / ||q||
///   at the end of a cycle: x += Z y, where y minimises ||beta e_1 - H y||
#pragma once

#include "runtime/krylov/verdict.hpp"

namespace shardsolve::krylov::fgmres {

enum Reduction : int { after_operator, after_first, after_second, reductions };
/// ||q||^2; ||z||^2; ||b||^2, or <z, b>; ||v||^2 of v = Z y that A makes small; then <v_k, q> for
/// each column.
enum AfterOperator : int { q_q, z_z, b_b, v_v, sums_after_operator };
/// The second <v_k, q> for each column.
enum AfterFirst : int { sums_after_first };
/// ||q||^2.
enum AfterSecond : int { q_q_second, sums_after_second };
// coefficient[0] normalises a column.

/// Parts of room.hessenberg with cycle m: R, m columns of m + 1; m rotations of a cosine (complex)
/// and a sine (real); g, m + 1.
SHARDSOLVE_HOST_DEVICE inline std::int64_t room_length(std::int64_t cycle) {
  return (cycle + 1) * cycle + 2 * cycle + cycle + 1;
}
struct Hessenberg {
  Number* room;
  std::int64_t cycle;

  SHARDSOLVE_HOST_DEVICE Number& h(std::int64_t i, std::int64_t j) const {
    return room[j * (cycle + 1) + i];
  }
  SHARDSOLVE_HOST_DEVICE Number& cosine(std::int64_t j) const {
    return room[(cycle + 1) * cycle + 2 * j];
  }
  SHARDSOLVE_HOST_DEVICE Number& sine(std::int64_t j) const {
    return room[(cycle + 1) * cycle + 2 * j + 1];
  }
  SHARDSOLVE_HOST_DEVICE Number& g(std::int64_t j) const {
    return room[(cycle + 1) * cycle + 2 * cycle + j];
  }
};

/// y with a small ||R y||, and that norm, which is ||A Z y||: R y = w, R^H w = d, where d has
/// entries of size 1 that make w grow (A. K. Cline, C. B. Moler, G. W. Stewart, J. H. Wilkinson,
/// SIAM J. Numer. Anal. 16 (1979) 368). ||y|| = 1.
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline double find_weak(const Hessenberg& r,
                                                                std::int64_t columns, Number* y) {
  double norm_w = 0.0;
  for (std::int64_t i = 0; i < columns; ++i) {
    Number sum{};  // of what is known of R^H w
    for (std::int64_t k = 0; k < i; ++k) {
      sum = multiply_add(conjugated(r.h(k, i)), y[k], sum);
    }
    const double size = magnitude(sum);
    const Number d = size > 0.0 ? scaled(-1.0 / size, sum) : Number{1.0, 0.0};
    y[i] = divided(minus(d, sum), conjugated(r.h(i, i)));
    const double grown = magnitude(y[i]);
    norm_w = root(fused_multiply_add(norm_w, norm_w, grown * grown));
  }
  double norm_y = 0.0;
  for (std::int64_t i = columns - 1; i >= 0; --i) {
    Number sum = scaled(1.0 / norm_w, y[i]);
    for (std::int64_t k = i + 1; k < columns; ++k) {
      sum = multiply_add(negated(r.h(i, k)), y[k], sum);
    }
    y[i] = divided(sum, r.h(i, i));
    const double grown = magnitude(y[i]);
    norm_y = root(fused_multiply_add(norm_y, norm_y, grown * grown));
  }
  for (std::int64_t i = 0; i < columns; ++i) {
    y[i] = scaled(1.0 / norm_y, y[i]);
  }
  return 1.0 / norm_y;
}

/// In the next round x += Z y with the first `columns` of the cycle, before all else; y goes where
/// kernels take factors of columns from.
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void collect(const Problem& problem, State& state,
                                                            const StateRoom& room,
                                                            std::int64_t columns) {
  const Hessenberg r{room.hessenberg, problem.cycle};
  Number* const y = room.column_factors;
  for (std::int64_t i = columns - 1; i >= 0; --i) {
    Number sum = r.g(i);
    for (std::int64_t k = i + 1; k < columns; ++k) {
      sum = multiply_add(negated(r.h(i, k)), y[k], sum);
    }
    y[i] = divided(sum, r.h(i, i));
  }
  state.weak_product = columns > 0 ? find_weak(r, columns, room.weak_factors) : 0.0;
  state.columns = columns;
  state.collects = columns > 0 ? 1 : 0;
}

SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void step_after_operator(const Problem& problem,
                                                                        State& state,
                                                                        const StateRoom& room,
                                                                        const Number* sums) {
  if ((state.actions & act_collect) != 0 && is_finite(state.weak_product)) {
    note_gain(problem, state, root(sums[v_v].re), state.weak_product);
  }
  if ((state.actions & act_load_ones) != 0) {
    judge_last_product(problem, state, room, sums[z_z].re, sums[q_q].re, sums[b_b]);
    return;
  }
  if (is_about_rounding(state)) {
    idle(state);
    judge_rounding(state, sums[q_q].re);
    return;
  }
  if ((state.actions & act_residual) != 0) {
    if (judge_check(problem, state, room, sums[q_q].re, sums[z_z].re, sums[b_b].re) ==
        AfterCheck::begin) {
      state.phase = Phase::iterate;
      state.actions |= act_take_residual;
    }
    return;
  }
  ++state.matvecs;
  idle(state);
  const std::int64_t j = state.column;
  if (!settle_scaling(problem, state.scaling_m, 1.0, sums[z_z].re) ||
      !settle_scaling(problem, state.scaling_a, sums[z_z].re, sums[q_q].re)) {
    plan_beginning(state);
    return;
  }
  if (!is_finite(sums[z_z]) || !is_finite(sums[q_q])) {
    plan_end(state,
             is_finite(sums[z_z]) ? Status::nonfinite_operator : Status::nonfinite_preconditioner,
             0.0, Seen::under_way);
    collect(problem, state, room, j);
    return;
  }
  state.product_norm = root(sums[q_q].re);
  if (sums[z_z].re > 0.0) {
    state.norm_a = larger(state.norm_a, state.product_norm / root(sums[z_z].re));
    note_gain(problem, state, root(sums[z_z].re), state.product_norm);
  }
  const Hessenberg r{room.hessenberg, problem.cycle};
  for (std::int64_t k = 0; k <= j; ++k) {
    r.h(k, j) = sums[sums_after_operator + k];
    room.column_factors[k] = r.h(k, j);
  }
  state.actions |= act_half_step;
}

SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void step_after_first(const Problem& problem,
                                                                     State& state,
                                                                     const StateRoom& room,
                                                                     const Number* sums) {
  if ((state.actions & act_half_step) == 0) {
    return;
  }
  idle(state);
  const Hessenberg r{room.hessenberg, problem.cycle};
  const std::int64_t j = state.column;
  for (std::int64_t k = 0; k <= j; ++k) {
    const Number more = sums[sums_after_first + k];
    r.h(k, j) = {r.h(k, j).re + more.re, r.h(k, j).im + more.im};
    room.column_factors[k] = more;
  }
  state.actions |= act_advance;
}

/// Rotates column j, whose last entry is `below`, to upper triangular form.
SHARDSOLVE_HOST_DEVICE inline void rotate(const Hessenberg& r, std::int64_t j, double below) {
  for (std::int64_t k = 0; k < j; ++k) {
    const Number upper = r.h(k, j);
    const Number lower = r.h(k + 1, j);
    r.h(k, j) = multiply_add(conjugated(r.cosine(k)), upper, scaled(r.sine(k).re, lower));
    r.h(k + 1, j) = multiply_add(r.cosine(k), lower, scaled(-r.sine(k).re, upper));
  }
  const Number a = r.h(j, j);
  const double size = magnitude(a);
  const double most = larger(size, below);
  if (most == 0.0) {
    r.cosine(j) = {1.0, 0.0};
    r.sine(j) = {};
  } else {
    const double x = size / most;
    const double y = below / most;
    const double norm = most * root(fused_multiply_add(x, x, y * y));
    r.cosine(j) = {a.re / norm, a.im / norm};
    r.sine(j) = {below / norm, 0.0};
    r.h(j, j) = {norm, 0.0};
  }
  r.g(j + 1) = scaled(-r.sine(j).re, r.g(j));
  r.g(j) = times(conjugated(r.cosine(j)), r.g(j));
}

SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void step_after_second(const Problem& problem,
                                                                      State& state,
                                                                      const StateRoom& room,
                                                                      const Number* sums) {
  if (is_check_planned(state)) {
    return;
  }
  const Hessenberg r{room.hessenberg, problem.cycle};
  if ((state.actions & act_take_residual) != 0) {
    r.g(0) = {state.norm_r, 0.0};
    state.column = 0;
    state.coefficient[0] = {1.0 / state.norm_r, 0.0};
    idle(state);
    state.actions |= act_new_direction;
  } else {
    const std::int64_t j = state.column;
    const double below = root(sums[q_q_second].re);
    const bool is_exhausted = below <= problem.breakdown * state.product_norm;
    rotate(r, j, is_exhausted ? 0.0 : below);
    if (!(magnitude(r.h(j, j)) > problem.breakdown * state.product_norm)) {
      plan_recovery(state, Status::breakdown_hessenberg,
                    state.product_norm > 0.0 ? magnitude(r.h(j, j)) / state.product_norm : 0.0,
                    Seen::under_way);
      collect(problem, state, room, j);
      return;
    }
    ++state.iteration;
    state.norm_r = magnitude(r.g(j + 1));
    state.rho = r.h(j, j);
    state.alpha = {below, 0.0};
    state.is_exhausted = is_exhausted ? 1 : 0;
    write_record(problem, state, room, Event::none, state.norm_r);
    const bool is_last = state.iteration >= problem.max_iterations;
    if (is_last && state.norm_r > state.tolerance) {
      plan_end(state, Status::max_iterations, 0.0);
      collect(problem, state, room, j + 1);
      return;
    }
    if (is_exhausted || state.norm_r <= state.tolerance || j + 1 == problem.cycle) {
      plan_check(state, Check::candidate);
      collect(problem, state, room, j + 1);
      return;
    }
    state.column = j + 1;
    state.coefficient[0] = {1.0 / below, 0.0};
    idle(state);
    state.actions |= act_next_direction;
  }
  state.is_fresh = 0;
  state.columns = state.column + 1;
  state.phase = Phase::iterate;
  state.actions |= act_iterate;
  state.skip_operator = 0;
  state.skip_preconditioner = 0;
}

}  // namespace shardsolve::krylov::fgmres
