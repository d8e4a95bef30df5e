/// The condition number of a matrix that can be solved with.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/scaled.hpp>
#include <shardsolve/slab_layout.hpp>

#include <functional>
#include <type_traits>

namespace shardsolve::dense {

/// x = A^-1 x, or A^-H x if `adjoint`: the rank's rows of one right-hand side, enqueued on the
/// update queue.
template <Scalar T>
using SolveInPlace = std::function<void(MatrixView<T> x, bool adjoint)>;

/// est(||B||_1) from products with B, and B^H if `adjoint`: never above ||B||_1 but for rounding,
/// rarely below a third of it, the same on every rank. Not finite where a product is not; 0 for
/// n = 0.
template <Scalar T>
double one_norm_by(mesh::Rank& rank, const SlabLayout& layout,
                   const SolveInPlace<std::type_identity_t<T>>& multiply);

/// 1 / (||A||_1 est(||A^-1||_1)), the same on every rank; 1 for n = 0 and 0 where the condition
/// number is beyond the range of double. N. J. Higham, ACM Trans. Math. Softw. 14 (1988) 381;
/// LAPACK: gecon, pocon.
template <Scalar T>
double reciprocal_condition_by(mesh::Rank& rank, const SlabLayout& layout, Scaled norm_of_a,
                               const SolveInPlace<std::type_identity_t<T>>& solve);

}  // namespace shardsolve::dense
