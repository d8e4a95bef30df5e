/// What calls with a Cholesky factor ask of it.
#pragma once

#include <shardsolve/cholesky.hpp>
#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <iterator>

namespace shardsolve::dense {

/// Throws Error(invalid_argument) if it is none, or has been consumed.
template <Scalar T>
void require_usable(const CholeskyFactor<T>& factor) {
  if (!factor.diagonal || std::ssize(*factor.diagonal) != factor.layout().size()) {
    throw Error(
        ErrorKind::invalid_argument,
        "the factor has been moved from, or consumed by cholesky_inverse: factor the matrix "
        "again");
  }
  if (!factor.outcome.ok()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("there is no factor to work with: {}", factor.outcome.message()));
  }
}

}  // namespace shardsolve::dense
