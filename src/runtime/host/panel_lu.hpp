/// LU with partial pivoting of a tall panel in one thread.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime::host {

/// See LuKernels::panel; returns its `info`.
template <Scalar T>
std::int64_t factor_panel(std::int64_t first, MatrixView<T> a, std::int64_t* places);

/// See LuKernels::swap_rows.
template <Scalar T>
void swap_panel_rows(std::int64_t first, const std::int64_t* places, std::int64_t count,
                     MatrixView<T> a);

/// See LuKernels::solve_tile, of the lower triangle and Op::none.
template <Scalar T>
void solve_unit_lower(MatrixView<const T> tile, MatrixView<T> b);

}  // namespace shardsolve::runtime::host
