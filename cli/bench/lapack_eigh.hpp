/// LAPACK's eigenpairs, to compare with.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <vector>

namespace shardsolve::cli::bench {

/// Eigenvalues, ascending; eigenvectors replace `a`, of which the lower triangle is read. LAPACK
/// syevd, heevd, of the BLAS that CPU devices compute with. Throws Error(internal) if it finds
/// none.
template <Scalar T>
std::vector<RealOf<T>> lapack_eigh(MatrixView<T> a);

}  // namespace shardsolve::cli::bench
