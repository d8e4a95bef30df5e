/// Eigenvalues and eigenvectors by the plainest methods: the answers that the distributed routines
/// are tested against. Computed in Wide<T> and rounded to T once. For tests only.
#pragma once

#include "reference/dense_matrix.hpp"
#include "reference/wide.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::reference {

/// Z and w with A Z = Z diag(w).
template <Scalar T>
struct Eigenpairs {
  std::vector<RealOf<T>> values;  ///< w, ascending
  DenseMatrix<T> vectors;         ///< Z: column j belongs to values[j]; of any phase
};

/// All eigenvalues and orthonormal eigenvectors of a Hermitian matrix by cyclic Jacobi rotations
/// (Golub and Van Loan, "Matrix Computations", 8.5), until what is left off the diagonal is below
/// the roundoff of Wide<T>. Reads the lower triangle of `a` and the real part of its diagonal.
/// About 60 n^3 flops.
/// Throws Error(invalid_argument) if an entry is not finite.
template <Scalar T>
Eigenpairs<T> eigh(const DenseMatrix<T>& a);

/// How many eigenvalues of a real symmetric tridiagonal matrix are below `x`: the negative pivots
/// of T - x I (Sylvester's law of inertia). `off_diagonal` has one element fewer than `diagonal`.
/// Exact for some matrix whose elements differ from these by a few roundoffs of Wide<T>.
/// Throws Error(invalid_argument) if the lengths do not fit. 3 n flops.
template <Scalar T>
  requires(!is_complex<T>)
std::int64_t sturm_count(const std::vector<T>& diagonal, const std::vector<T>& off_diagonal,
                         WideReal<T> x);

}  // namespace shardsolve::reference
