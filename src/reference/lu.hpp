/// Textbook LU with partial pivoting and what follows from it: the answers that the distributed
/// routines are tested against. Every sum is accumulated in Wide<T> and rounded to T once. For
/// tests only.
#pragma once

#include "reference/dense_matrix.hpp"
#include "reference/matmul.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace shardsolve::reference {

/// P A = L U with unit lower triangular L.
template <Scalar T>
struct LuFactor {
  DenseMatrix<T> lu;               ///< L below the diagonal, U from there up
  std::vector<std::int64_t> rows;  ///< row of A that came to each place: (P A)_i = A_rows[i]
  bool odd = false;                ///< whether P is an odd permutation
  /// 0-based column of the first pivot that is exactly 0; what is left of it stays as it is.
  std::optional<std::int64_t> zero_pivot;
};

/// LU with partial pivoting by |re| + |im|, the first of equals (LAPACK's getrf). 2 n^3 / 3 flops.
template <Scalar T>
LuFactor<T> lu(const DenseMatrix<T>& a);

/// x with op(A) x = b, for a factor without zero pivots (LAPACK's getrs).
template <Scalar T>
DenseMatrix<T> lu_solve(const LuFactor<T>& factor, Op op, const DenseMatrix<T>& b);

/// det(A) = sign * exp(log).
template <Scalar T>
struct SignAndLog {
  T sign{1};         ///< of modulus 1, or 0
  double log = 0.0;  ///< -infinity where the sign is 0
};
template <Scalar T>
SignAndLog<T> lu_determinant(const LuFactor<T>& factor);

}  // namespace shardsolve::reference
