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

}  // namespace shardsolve::sparse
