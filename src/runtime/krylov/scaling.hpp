/// Powers of two by which products are worked on, so that A and M may be of any scale: sums of
/// squares leave the range of a dtype where numbers are still far from its ends.
///
/// Kernels do it (act_scale_a, act_scale_m), in solves where a first product asks for it and in no
/// other one. Bits are the same either way. x belongs to 2^exponent A, so it is scaled too, a guess
/// at the start and the solution at the end.
#pragma once

#include "runtime/krylov/state.hpp"

namespace shardsolve::krylov {

/// A first product may be tried so often: as it is, by a guess, by its length, and once more if
/// that was not known well, as most of the squares were below the range.
constexpr int tries_to_scale = 4;

/// ||B v||^2 and ||v||^2 of a first product with B: true if it is good for use. If not, it has to
/// be made again, with another exponent.
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline bool settle_scaling(const Problem& problem,
                                                                   Scaling& scaling,
                                                                   double in_squared,
                                                                   double out_squared) {
  const bool is_nan = out_squared != out_squared;
  if (scaling.is_settled != 0 || problem.usual_exponents == 0 || is_nan || !(in_squared > 0.0) ||
      scaling.tries == tries_to_scale) {
    scaling.is_settled = 1;
    return true;
  }
  const bool is_first = scaling.tries == 0;
  ++scaling.tries;
  int exponent = scaling.exponent;
  if (!is_finite(out_squared)) {
    exponent = is_first ? -problem.guessed_exponent : exponent;  // or there are infinities
  } else if (out_squared == 0.0) {
    exponent = is_first ? problem.guessed_exponent : 0;  // or it is 0
  } else {
    int of_ratio = 0;
    static_cast<void>(frexp(root(out_squared) / root(in_squared), &of_ratio));
    if (of_ratio > problem.usual_exponents || of_ratio < -problem.usual_exponents) {
      exponent -= of_ratio - of_ratio % 2;  // minres has the root of <M v, v>
    }
  }
  const int most = problem.max_exponent;
  exponent = exponent > most ? most : exponent < -most ? -most : exponent;
  if (exponent == scaling.exponent || (out_squared == 0.0 && !is_first)) {
    scaling.is_settled = 1;
  }
  scaling.exponent = exponent;
  return scaling.is_settled != 0;
}

SHARDSOLVE_HOST_DEVICE inline double power_of_two(std::int32_t exponent) {
  return ldexp(1.0, exponent);
}

/// What kernels do to products from here on.
SHARDSOLVE_HOST_DEVICE inline void scale_products(State& state) {
  if (state.scaling_a.exponent != 0) {
    state.actions |= act_scale_a;
    state.coefficient[of_scale_a] = {power_of_two(state.scaling_a.exponent), 0.0};
  }
  if (state.scaling_m.exponent != 0) {
    state.actions |= act_scale_m;
    state.coefficient[of_scale_m] = {power_of_two(state.scaling_m.exponent), 0.0};
  }
}

/// x, which is still the guess, becomes that of 2^exponent A. It becomes 0, which is nearer, if it
/// is much too large for b and that A as well, if it would leave the range, or if its residual says
/// so.
SHARDSOLVE_HOST_DEVICE inline void scale_guess(const Problem& problem, State& state) {
  const bool is_left_out = state.guess_exponent == guess_is_left_out;
  const std::int32_t missing =
      state.exponent_of_x - state.scaling_a.exponent + (is_left_out ? 0 : state.guess_exponent);
  const bool is_too_large = (state.guess_exponent > 0 && missing > 0) ||
                            (missing > 0 && state.guess_size + missing > problem.max_exponent);
  if (missing != 0 || is_left_out) {
    state.actions |= act_scale_x;
    state.coefficient[of_scale_x] = {is_too_large || is_left_out ? 0.0 : power_of_two(missing),
                                     0.0};
  }
  state.exponent_of_x = state.scaling_a.exponent;
  state.guess_exponent = is_left_out ? guess_is_left_out : 0;
  state.guess_size += missing;
}

/// x, where it is given to A to find its residual, is what the caller will have of it: times a
/// power of two that is less than 1, so that parts may be lost below the range.
SHARDSOLVE_HOST_DEVICE inline void round_x(const Problem& problem, State& state) {
  const std::int32_t lost = state.exponent_of_b - state.exponent_of_x;
  if (lost > 0 && problem.max_exponent > 0) {
    const std::int32_t exponent = lost < problem.max_exponent ? lost : problem.max_exponent;
    state.actions |= act_round_x;
    state.coefficient[of_round_x] = {power_of_two(-exponent), 0.0};
    state.coefficient[of_rounded_x] = {power_of_two(exponent), 0.0};
  }
}

/// <v, B v> / ||v||^2 as it is for B without its power of two.
SHARDSOLVE_HOST_DEVICE inline double without_scaling(double value, const Scaling& scaling) {
  return ldexp(value, -scaling.exponent);
}

}  // namespace shardsolve::krylov
