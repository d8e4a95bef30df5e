/// Products of tall matrices, and quotients by small triangles: what qr_kernels.cpp enqueues.
#pragma once

#include "runtime/qr_kernels.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

namespace shardsolve::runtime::host {

/// See QrKernels::adjoint_product.
template <Scalar T>
void adjoint_product(MatrixView<const T> a, MatrixView<const T> b, MatrixView<WideOf<T>> target);
/// See QrKernels::gram.
template <Scalar T>
void gram(MatrixView<const T> a, MatrixView<WideOf<T>> g);
/// See QrKernels::gram_factor.
template <Scalar W>
GramVerdict gram_factor(double shift, MatrixView<W> g);
/// See QrKernels::divide.
template <Scalar T>
void divide(MatrixView<const WideOf<T>> r, MatrixView<T> q);

}  // namespace shardsolve::runtime::host
