/// The matrices that every Hermitian eigensolver has to cope with, by name.
#pragma once

#include "reference/dense_matrix.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::testing {

using reference::DenseMatrix;

/// Hermitian bit for bit, with an exactly real diagonal; truly complex in complex dtypes, but for
/// those that are diagonal.
template <Scalar T>
struct EighCase {
  std::string name;  ///< letters, digits and underscores
  DenseMatrix<T> a;
};

/// All matrices of size n that make sense in this dtype. n^2 elements each, all at once.
/// u is the unit roundoff of T, Q random and unitary.
///
/// hermitian               |a_ij| <= 1 random, the diagonal too
/// hermitian_tiny, _huge   the same times 1e-160, 1e307 (single precision: 1e-30, 2e37), so that
///                         squares and sums of some leave the range
/// wishart                 G G^H / n with G random: eigenvalues crowd at 0
/// geometric               Q diag(d) Q^H, d from 1 down to 1e-16 in equal ratios
/// three_clusters          Q diag(d) Q^H, d around -2, 1 and 3, at most 1000 u apart (float64:
/// 1e-13) one_value               I and random changes of up to u: one eigenvalue n times
/// rank_three              Q diag(3, -2, 1, 0, 0, ...) Q^H
/// gaussian_kernel         exp(-|x_i - x_j|^2 / (2 0.2^2)), x equidistant: numerically of low rank
/// kac_murdock_szego       0.9^|i - j|: every eigenvalue between 1/19 and 19
/// glued_wilkinson         Wilkinson's W21+, as often as it fits, coupled by sqrt(u): tridiagonal
/// glued_wilkinson_rotated Q times that times Q^H
/// diagonal                random numbers of both signs, in no order
/// identity, zero
/// small_imaginary, small_real (complex dtypes)  hermitian with that part 1e-8 times the other
template <Scalar T>
std::vector<EighCase<T>> eigh_zoo(std::int64_t n);

/// Q A Q^H for Hermitian A and random Q, a product of eight reflectors: the same eigenvalues up to
/// rounding, and no zeros left. LAPACK's residuals are as large as with n reflectors. Computed in
/// wide arithmetic and rounded once. 96 n^2 flops.
template <Scalar T>
DenseMatrix<T> randomly_rotated(const DenseMatrix<T>& a);

}  // namespace shardsolve::testing
