/// One pass over columns of a matrix: sums and the probe of its symmetry.
#pragma once

#include "runtime/kernel_arguments.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

namespace shardsolve::runtime::host {

/// The loop behind Kernels::inspect. Sums run in double, so that for float32 and complex64 the
/// probe sees the matrix and not its own rounding.
template <Scalar T>
void inspect_columns(MatrixView<const T> a, std::int64_t first, const double* weights, double scale,
                     const Inspection& result);

}  // namespace shardsolve::runtime::host
