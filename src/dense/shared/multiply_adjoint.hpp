/// Products over all rows of a matrix, as accurate where terms are equal as elsewhere.
#pragma once

#include "runtime/hermitian_kernels.hpp"
#include "runtime/kernels.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace shardsolve::dense {

/// c = a^H b, with sums over so many rows at a time. An addition of equal numbers rounds to the
/// same side each time: a sum of m of them is off by up to m u / 4, which is what reflectors of
/// columns of equal entries would lose.
template <Scalar T>
void multiply_adjoint(const runtime::Kernels<T>& kernels, runtime::Queue& queue,
                      std::int64_t rows_at_once, std::type_identity_t<MatrixView<const T>> a,
                      std::type_identity_t<MatrixView<const T>> b, MatrixView<T> c) {
  using runtime::Op;
  for (std::int64_t row = 0; row < a.rows(); row += rows_at_once) {
    const std::int64_t rows = std::min(rows_at_once, a.rows() - row);
    kernels.gemm(queue, Op::conjugate_transpose, Op::none, T{1}, a.block(row, 0, rows, a.columns()),
                 b.block(row, 0, rows, b.columns()), row == 0 ? T{0} : T{1}, c);
  }
}

/// Likewise, in twice the precision but for the sums over so many rows: the product is the first
/// half of the columns of `sums` and the second, which has what rounding took. `part` is room for
/// one sum. For V^H V: where t does not fit V, I - V t V^H is not unitary.
template <Scalar T>
void multiply_adjoint(const runtime::Kernels<T>& kernels,
                      const runtime::HermitianKernels<T>& twofold, runtime::Queue& queue,
                      std::int64_t rows_at_once, std::type_identity_t<MatrixView<const T>> a,
                      std::type_identity_t<MatrixView<const T>> b,
                      std::type_identity_t<MatrixView<T>> part, MatrixView<T> sums) {
  using runtime::Op;
  kernels.fill(queue, T{0}, sums);
  for (std::int64_t row = 0; row < a.rows(); row += rows_at_once) {
    const std::int64_t rows = std::min(rows_at_once, a.rows() - row);
    kernels.gemm(queue, Op::conjugate_transpose, Op::none, T{1}, a.block(row, 0, rows, a.columns()),
                 b.block(row, 0, rows, b.columns()), T{0}, part);
    twofold.add_twofold(queue, part, sums);
  }
}

}  // namespace shardsolve::dense
