/// The general matrices that an elimination with row exchanges has to cope with, by name, and the
/// gates for its factor.
#pragma once

#include "reference/dense_matrix.hpp"
#include "tests/support/gates.hpp"

#include <shardsolve/slab_layout.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::testing {

/// What a solver has to say of one.
enum class LuVerdict : std::uint8_t {
  solved,    ///< well enough conditioned for an answer
  singular,  ///< a pivot is exactly 0
  any,       ///< rounding decides; if solved, then well
};

template <Scalar T>
struct LuCase {
  std::string name;  ///< letters, digits and underscores
  DenseMatrix<T> a;
  LuVerdict verdict = LuVerdict::solved;
};

/// All matrices of size n >= 2 that make sense in this dtype.
///
/// random           |a_ij| <= 1, not Hermitian
/// wilkinson        1 on the diagonal, -1 below it, 1 in the last column: U grows to 2^(n-1)
/// wilkinson_t      its transpose
/// foster           like a Volterra equation by quadrature: grows as fast for other reasons
/// foster_t         its transpose
/// hilbert          1 / (i + j + 1)
/// kernel           exp(-|x_i - x_j|^2 / (2 0.2^2)), x equidistant: numerically of low rank
/// rows, columns, both  random, scaled by 10^-e ... 10^e, e = 150 (single precision: 15)
/// zero_column, zero, equal_rows
/// vandermonde      x_i^j, x equidistant in [0, 1]
/// antidiagonal     1, 2, ... from the lower left: every pivot is found in another row
/// fourier          unitary (real: orthogonal)
/// tiny             random times 1e-300 (single precision: 1e-34)
/// signs            +-1: ties in every column
template <Scalar T>
std::vector<LuCase<T>> lu_zoo(std::int64_t n);

/// P A Q^T of a factorisation: row i of the result is row rows[i] of A, columns in the order of
/// elimination.
template <Scalar T>
DenseMatrix<T> in_pivot_order(const DenseMatrix<T>& a, const std::vector<std::int64_t>& rows,
                              const SlabLayout& layout);
/// Columns of a factor in the order of elimination, as rows of it are.
template <Scalar T>
DenseMatrix<T> columns_in_order(const DenseMatrix<T>& lu, const SlabLayout& layout);

/// ||A - L U|| / (||A|| u) in the 1-norm, L and U in one matrix.
template <Scalar T>
double lu_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& lu);

/// L and U are those of `paq` = P A Q^T by the limit max(10, 4 times LAPACK's on the same matrix),
/// pivots from LAPACK's own choice; and no entry of L is larger than a pivot allows.
template <Scalar T>
::testing::AssertionResult factors_general(const DenseMatrix<T>& paq, const DenseMatrix<T>& lu);

}  // namespace shardsolve::testing
