/// Answers where LU has none: A = Q R of the rows that the ranks have.
#pragma once

#include "dense/lu/factor_part.hpp"
#include "mesh/rank.hpp"
#include "runtime/kernel_arguments.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace shardsolve::dense::lu {

/// What QR has found; the same on all ranks.
template <Scalar T>
struct FoundByQr {
  std::vector<T> x;    ///< n x k, op(A) X = B; empty if A has no full rank to rounding
  double rcond = 0.0;  ///< of R, columns of op(A) at equal size
};

/// Factors op(A) and solves for the rank's rows of B, n_r x k. Nothing in `factor` but A is used.
template <Scalar T>
FoundByQr<T> solve_by_qr(mesh::Rank& rank, const FactorPart<T>& factor, runtime::Op op,
                         MatrixView<const T> b);

/// Likewise the forward error of X, n_r x k on a rank, as forward_error() has it. 2 max(w, u) ||
/// |A^-1| |A| y || with y the shape of X; here |A| y and the columns of what that leaves are taken
/// out as powers of two, so that nothing leaves the range, and ||.^-1|| of the rest is 1 / rcond.
template <Scalar T>
double forward_error_by_qr(mesh::Rank& rank, const FactorPart<T>& factor, runtime::Op op,
                           MatrixView<const T> x, double component_error);

/// Bytes of workspace on a rank.
std::int64_t by_qr_bytes(const SlabLayout& layout, Dtype dtype, std::int64_t columns);

}  // namespace shardsolve::dense::lu
