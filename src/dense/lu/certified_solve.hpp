/// A solve with its certificate.
#pragma once

#include "dense/lu/factor_part.hpp"
#include "mesh/rank.hpp"
#include "runtime/kernel_arguments.hpp"

#include <shardsolve/outcome.hpp>

#include <cstdint>

namespace shardsolve::dense::lu {

/// Overwrites the rank's rows of B with those of X, op(A) X = B, refined until its backward error
/// is that of rounding, by the norm and for each equation; by QR where the factor does not lead
/// there, if it may be asked, which takes by_qr_bytes(). The outcome is the same on every rank: ok,
/// nonfinite_input (b intact), overflow or inaccurate. `solved`: the first columns that have an
/// answer, all if it is ok; of overflow the others are as they were.
template <Scalar T>
Outcome certified_solve(mesh::Rank& rank, const FactorPart<T>& factor, runtime::Op op,
                        MatrixView<T> b, bool may_ask_qr, std::int64_t& solved);

/// Likewise of a factor that has overwritten A, by one solve; its sketch says the backward error,
/// in the Frobenius norm. Elimination alone leaves more of it the larger A is, of random
/// numbers 2.9, 3.6, 5.2, 7.0 u for n = 500, 1000, 2000, 4000: inaccurate is what is above sqrt(n)
/// u, and 10.
template <Scalar T>
Outcome sketched_solve(mesh::Rank& rank, const FactorPart<T>& factor, runtime::Op op,
                       MatrixView<T> b);

/// Right-hand sides, of those solved together, whose residuals are all exact. Of more, quick ones
/// say what is to be refined and which are the worst, whose errors are then found exactly.
inline constexpr std::int64_t max_exact = 8;

/// Errors in units of the rounding: above these x is refined, and above the last one given up.
inline constexpr double refined_from = 4.0;
inline constexpr double refined_from_by_components = 10.0;
inline constexpr double given_up_from = 10.0;
inline constexpr int max_refinements = 3;

/// From which growth on a factor is one of another matrix, in the dtype of T: 1 / sqrt(u).
template <Scalar T>
double largest_growth();

}  // namespace shardsolve::dense::lu
