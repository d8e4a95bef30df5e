/// The two halves of a task of a chase (runtime/chase.hpp) by the vector instructions of CPUs that
/// have AVX-512: to be called if avx512::has_avx512(), for at most max_chase_rows rows.
///
/// By the BLAS, which has no routine for both at once, a block is read four times and written
/// twice; here a column stays in registers for what comes from the right and from the left.
#pragma once

#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime::host {

/// As many as eight vectors hold, which leaves registers for two more.
template <class Real>
constexpr std::int64_t max_chase_rows = 8 * 64 / static_cast<std::int64_t>(sizeof(Real));

/// Applies from the right the reflector (tau, then v) `before`, null for none; makes that of the
/// block's first column, and applies it from the left. `reflector` has room for tau and
/// block.rows() numbers.
template <class Real>
void chase_block(MatrixView<Real> block, const Real* before, Real* reflector);

/// d -= w v^T + v w^T below d's diagonal; w = p but for all of it along v, p = tau d v.
template <class Real>
void chase_triangle(MatrixView<Real> d, const Real* reflector, Real* w);

}  // namespace shardsolve::runtime::host
