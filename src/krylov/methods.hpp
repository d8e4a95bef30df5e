/// The methods as rounds: which kernels, products and sums in which order. What each of them does
/// in a round is decided by the scalar step, src/runtime/krylov.
#pragma once

#include "krylov/method_table.hpp"
#include "krylov/rounds.hpp"

#include <memory>
#include <vector>

namespace shardsolve::krylov {

/// Sums of one round of a method, reduction by reduction.
std::vector<ReductionShape> reductions_of(const Problem& problem);

/// Adds the vectors of a method beside those that all have.
template <Scalar T>
std::unique_ptr<MethodRounds<T>> make_method(const Problem& problem, Rounds<T>& rounds);

}  // namespace shardsolve::krylov
