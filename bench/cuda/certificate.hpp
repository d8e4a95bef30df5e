/// What an outcome of ours says, for the report.
#pragma once

#include <shardsolve/cholesky.hpp>
#include <shardsolve/dtype.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/outcome.hpp>

#include <nlohmann/json.hpp>

namespace shardsolve::bench {

template <Scalar T>
nlohmann::json certificate_of(const Outcome& outcome) {
  nlohmann::json certificate = {{"seconds", outcome.seconds}, {"flops", outcome.flops}};
  if (outcome.backward_error) {
    certificate["backward_error_in_u"] = *outcome.backward_error / unit_roundoff<T>;
  }
  if (outcome.residual) {
    certificate["residual_in_u"] = *outcome.residual / unit_roundoff<T>;
  }
  if (outcome.orthogonality) {
    certificate["orthogonality_in_u"] = *outcome.orthogonality / unit_roundoff<T>;
  }
  if (outcome.rcond) {
    certificate["rcond"] = *outcome.rcond;
  }
  return certificate;
}

/// With rcond alone, which is estimated now. Throws Error(internal) if it cannot be one.
template <Scalar T>
Outcome estimated_rcond(Mesh& mesh, const CholeskyFactor<T>& factor) {
  Outcome outcome;
  outcome.rcond = condition_estimate(mesh, factor);
  if (!(*outcome.rcond > 0.0 && *outcome.rcond <= 1.0)) {
    throw Error(ErrorKind::internal, "rcond is not between 0 and 1");
  }
  return outcome;
}

}  // namespace shardsolve::bench
