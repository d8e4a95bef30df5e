/// Products with a matrix that are summed in twice the precision, and what they are measured by.
#pragma once

#include "runtime/kernel_arguments.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

namespace shardsolve::runtime::host {

/// See LuKernels::multiply, of Op::none.
template <Scalar T>
void multiply_wide(MatrixView<const T> a, MatrixView<const T> x, MatrixView<T> y,
                   MatrixView<double> sizes);
/// Likewise, of the others.
template <Scalar T>
void multiply_transposed_wide(Op op, MatrixView<const T> a, MatrixView<const T> x, MatrixView<T> y,
                              MatrixView<double> sizes);

/// See LuKernels::moduli.
template <Scalar T>
void moduli(MatrixView<const T> source, MatrixView<RealOf<T>> target);

/// See LuKernels::row_sums.
template <Scalar T>
void row_sums(double scale, MatrixView<const T> a, double* sums, double* largest);

}  // namespace shardsolve::runtime::host
