/// LAPACK's LU factorisation, to compare with.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::cli::bench {

/// L and U in the place of a square matrix, by getrf of the BLAS that CPU devices compute with;
/// returns the row that came to each place. Throws Error(internal) if getrf finds a pivot of 0.
template <Scalar T>
std::vector<std::int64_t> lapack_lu(MatrixView<T> a);

}  // namespace shardsolve::cli::bench
