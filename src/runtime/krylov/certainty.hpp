/// Whether a residual is within the tolerance for certain: as it is, not as it was computed.
#pragma once

#include "runtime/krylov/state.hpp"

namespace shardsolve::krylov {

/// How far ||b - A x|| may lie above the norm of what was computed for it, before rounding in that
/// norm itself. x: that of norm_x.
///
/// Where A x is summed with twice the digits, a row of q = fl(A x) is wrong by u |q| and by about
/// k^2 u^2 of its terms, of which there are k; b - q then by u |b - q|, which is_within() has. With
/// ||q|| about ||b|| that is u ||b||, whatever A is. Other products are wrong by a modest multiple
/// of u ||A|| ||x||: k u of the sum of moduli at most, and about sqrt(k) u of it as a rule.
///
/// Where rows or columns of A differ by decades, ||A|| ||x|| may be far more than the moduli that
/// are summed. What these come to is known where it was asked for; see wants_rounding().
SHARDSOLVE_HOST_DEVICE inline double doubt(const Problem& problem, const State& state) {
  const double reach = state.norm_a * state.norm_x;
  const double usual = problem.is_twofold != 0
                           ? fused_multiply_add(64.0 * problem.roundoff, reach, state.norm_b)
                           : 2.0 * (reach + state.norm_b);
  const double bounded = state.rounding + state.norm_b;
  return problem.roundoff * (state.rounding >= 0.0 && bounded < usual ? bounded : usual);
}

/// What a residual, with its doubt, may be at most.
SHARDSOLVE_HOST_DEVICE inline double allowed(const Problem& problem, const State& state) {
  return (1.0 - 64.0 * problem.roundoff) * state.tolerance;
}

/// Sums of squares are wrong by at most 8 + 3 + 20 roundings of their lanes and trees (up to 2^26
/// rows), so their roots by 16 u, those of b and of the residual together by 32 u; as much again is
/// for b - q and for what is computed here.
SHARDSOLVE_HOST_DEVICE inline bool is_within(const Problem& problem, const State& state,
                                             double norm) {
  if (state.norm_x == 0.0) {
    return norm <= state.tolerance;  // b - A x is b
  }
  return norm + doubt(problem, state) <= allowed(problem, state);
}

/// Whether it may turn out to be within, once it is known what rounding did: one product more, and
/// the check again if it does not. Not within a cycle that is to be resumed.
SHARDSOLVE_HOST_DEVICE inline bool wants_rounding(const Problem& problem, const State& state,
                                                  double norm) {
  const bool is_end =
      state.check == Check::start || state.check == Check::candidate || state.check == Check::last;
  return problem.has_bounds != 0 && is_end && state.rounding < 0.0 && state.norm_x > 0.0 &&
         fused_multiply_add(problem.roundoff, state.norm_b, norm) <= allowed(problem, state);
}

}  // namespace shardsolve::krylov
