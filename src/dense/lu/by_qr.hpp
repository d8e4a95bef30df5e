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

/// Bytes of workspace on a rank.
std::int64_t by_qr_bytes(const SlabLayout& layout, Dtype dtype, std::int64_t columns);

}  // namespace shardsolve::dense::lu
