/// What a sparse matrix on the host has to be; each throws Error(invalid_argument) with what is
/// wrong.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/sparse.hpp>

namespace shardsolve::sparse {

/// As many indices as values, and all of them in range.
template <Scalar T>
void require_valid(const CooMatrix<T>& matrix);
/// Likewise; row pointers never fall, indices are in range.
template <Scalar T>
void require_valid(const CsrMatrix<T>& matrix);
/// Likewise; it is square, and columns of each row ascend and none comes twice. `use` is what the
/// matrix is for.
template <Scalar T>
void require_square_in_order(const CsrMatrix<T>& matrix, const char* use);

}  // namespace shardsolve::sparse
