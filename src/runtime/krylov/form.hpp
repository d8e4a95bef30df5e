/// What <v, B v> says of an operator B that has to be Hermitian and positive definite.
#pragma once

#include "runtime/krylov/state.hpp"

namespace shardsolve::krylov {

enum class Form : std::int32_t {
  positive,
  asymmetric,  ///< not real
  negative,
  /// 0, and B v is not: of a semidefinite B it would be, as ||B v||^2 <= ||B|| <v, B v>.
  flat,
  hidden,  ///< B v may be nothing but rounding
};

/// w = B v is wrong by u ||B|| ||v|| however short it is, where B is ill-conditioned and v among
/// the smallest eigenvectors: so what speaks against B has to be more than that. `norm`: the
/// largest ||B v|| / ||v|| seen, of this product too.
SHARDSOLVE_HOST_DEVICE inline Form judge_form(const Problem& problem, Number product, double norm_v,
                                              double norm_w, double norm) {
  const double most = norm * norm_v * norm_v;
  if (absolute(product.im) > problem.asymmetry * most) {
    return Form::asymmetric;
  }
  if (product.re > problem.breakdown * (norm_v * norm_w)) {
    return Form::positive;
  }
  if (product.re < -problem.breakdown * most) {
    return Form::negative;
  }
  const double share = norm_w / (norm * norm_v);
  return share * share > problem.breakdown ? Form::flat : Form::hidden;
}

/// How far <v, B v> is from real numbers, in terms of what rounding is measured by.
SHARDSOLVE_HOST_DEVICE inline double asymmetry_of(Number product, double norm_v, double norm) {
  return absolute(product.im) / (norm * norm_v * norm_v);
}

}  // namespace shardsolve::krylov
