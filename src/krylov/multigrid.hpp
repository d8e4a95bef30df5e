/// What is made of the matrices of a multigrid hierarchy before it is used.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/sparse.hpp>

#include <vector>

namespace shardsolve::krylov {

/// A bound of eigenvalues of D^-1 A, where D is the diagonal of A: the largest sum of a row; if A
/// is Hermitian and D positive, not more than what Lanczos finds and a tenth.
template <Scalar T>
double largest_eigenvalue(const CsrMatrix<T>& a, const std::vector<T>& diagonal);

/// A^-1 as a matrix all of whose entries are there: not finite where A is singular.
template <Scalar T>
CsrMatrix<T> inverse_of(const CsrMatrix<T>& a);

}  // namespace shardsolve::krylov
