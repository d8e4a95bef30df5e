/// Triangular solves whose right-hand sides are columns on the ranks.
#pragma once

#include "mesh/rank.hpp"
#include "runtime/kernel_arguments.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

namespace shardsolve::dense::eigh {

/// x = M^-1 x for M = P^T L P (`op` none) or its conjugate transpose, L a factor as
/// CholeskyFactor has it and `l` this rank's slab of it. `x`: n rows in the caller's order and any
/// columns, ready on the update queue. L travels once to all ranks, which need nothing else of each
/// other. Waits for the end. Throws Error(cancelled).
template <Scalar T>
void solve_columns(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> l,
                   runtime::Op op, MatrixView<T> x);

/// Elements of workspace that a rank takes.
std::int64_t solve_columns_elements(const SlabLayout& layout);

}  // namespace shardsolve::dense::eigh
