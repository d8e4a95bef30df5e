/// Operators that solves make for themselves.
#pragma once

#include "krylov/linear_operator.hpp"

#include <shardsolve/matrix_view.hpp>
#include <shardsolve/sparse.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace shardsolve::krylov {

/// Throws Error(unsupported) on a rank that is no CPU; `what` needs one.
void require_host(mesh::Rank& rank, const char* what);

/// y = D^-1 x: D as a vector in device memory.
template <Scalar T>
std::unique_ptr<LinearOperator<T>> make_jacobi(MatrixView<const T> diagonal);

/// The diagonal of a square matrix, in order. Throws Error(invalid_argument) if an entry is missing
/// or 0; `use` is what divides by it.
template <Scalar T>
std::vector<T> diagonal_to_divide_by(const CsrMatrix<T>& a, const char* use);

/// y = x on a rank with `rows` rows.
template <Scalar T>
std::unique_ptr<LinearOperator<T>> make_identity(std::int64_t rows);

}  // namespace shardsolve::krylov
