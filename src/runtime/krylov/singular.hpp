/// Is A singular, and is b outside of its range? What the products of a solve tell, and one more
/// product, with the vector of ones, of a solve that has failed.
///
/// If A d = 0, A is singular. If A is Hermitian too, <d, b - A x> = <d, b> for every x: no residual
/// is less than |<d, b>| / ||d||. To rounding this holds as long as ||A d|| ||x|| is much less.
#pragma once

#include "runtime/krylov/state.hpp"

namespace shardsolve::krylov {

/// `out` / `in` is ||A d|| / ||d|| of some d, or more than the least of them: so large is A^-1 at
/// least. What is less than rounding in A d counts as that.
SHARDSOLVE_HOST_DEVICE inline void note_gain(const Problem& problem, State& state, double in,
                                             double out) {
  if (in > 0.0 && is_finite(in) && is_finite(out)) {
    const double least = larger(out, problem.roundoff * state.norm_a * in);
    state.norm_inverse = larger(state.norm_inverse, in / least);
  }
}

/// Whether a failure may come from A being singular.
SHARDSOLVE_HOST_DEVICE inline bool may_be_of_singular_operator(Status status) {
  switch (status) {
    case Status::max_iterations:
    case Status::stagnated:
    case Status::accuracy_limit:
    case Status::diverged:
    case Status::breakdown_rho:
    case Status::breakdown_sigma:
    case Status::breakdown_omega:
    case Status::breakdown_hessenberg:
    case Status::indefinite_operator:
    case Status::singular_operator:
      return true;
    default:
      return false;
  }
}

/// A times the vector of ones, `ones`^2 and `product`^2 their norms, and <1, b>: a failure may get
/// the name of its cause. A residual up to `limit` would do. norm_x is that of the x returned.
SHARDSOLVE_HOST_DEVICE SHARDSOLVE_APART inline void judge_constants(const Problem& problem,
                                                                    State& state, double limit,
                                                                    double ones, double product,
                                                                    Number of_b) {
  ++state.matvecs;
  const double norm = root(ones);
  const double gain = root(product) / norm;
  if (!is_finite(gain)) {
    return;
  }
  state.norm_a = larger(state.norm_a, gain);
  note_gain(problem, state, norm, root(product));
  if (!(gain <= 64.0 * problem.roundoff * state.norm_a)) {
    return;
  }
  state.has_null_constants = 1;
  if (!problem.is_hermitian_method()) {
    // Whether b is in the range is not known. It need not be where the limit was too low.
    if (state.pending != Status::max_iterations) {
      state.pending = Status::singular_operator;
      state.pending_value = 0.0;
    }
    return;
  }
  // No residual is less than this share of b; where there are more null vectors, one that the
  // method has found may say more.
  const double share = magnitude(of_b) / norm;
  constexpr double as_much = 0.9;
  const double known =
      state.pending == Status::singular_operator ? as_much * state.pending_value : 0.0;
  if (share > limit && share >= known && gain * state.norm_x <= 0.01 * share) {
    state.is_of_constants = 1;
    state.pending_value = state.has_least_residual != 0 ? state.pending_value : share;
    state.pending = Status::singular_operator;
  }
}

}  // namespace shardsolve::krylov
