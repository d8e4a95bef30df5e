/// Real symmetric tridiagonal matrices that an eigensolver has to cope with, and how its answers
/// are judged.
#pragma once

#include "reference/dense_matrix.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace shardsolve::testing::tridiagonal {

using reference::DenseMatrix;

template <class Real>
struct TridiagonalCase {
  std::string name;  ///< letters, digits and underscores
  std::vector<Real> diagonal;
  std::vector<Real> off_diagonal;

  std::int64_t order() const { return static_cast<std::int64_t>(diagonal.size()); }
};

/// All of order n.
template <class Real>
std::vector<TridiagonalCase<Real>> tridiagonal_zoo(std::int64_t n);

/// What the answers for one matrix are compared with.
template <class Real>
struct TridiagonalTruth {
  std::vector<long double> values;  ///< the eigenvalues, ascending, right to all digits of Real
  long double norm = 0.0L;          ///< ||T||_1
  /// The ratios below, the larger of those of LAPACK's stedc and of its syevd on a random rotation
  /// of T.
  double lapack_residual = 0.0;
  double lapack_orthogonality = 0.0;
};

template <class Real>
TridiagonalTruth<Real> truth_of(const TridiagonalCase<Real>& t);

/// ||T Z - Z Lambda||_1 / (||T||_1 u), for some eigenvectors; NaN if an entry is. 0 for 0 / 0.
template <class Real>
double tridiagonal_residual(const TridiagonalCase<Real>& t, const Real* values,
                            const DenseMatrix<Real>& z);

/// ||Z^T Z - I||_1 / u; NaN if an entry of Z is.
template <class Real>
double orthogonality_ratio(const DenseMatrix<Real>& z);

/// Both ratios at most max(10, 4 times LAPACK's). `values`: those of the columns of Z.
template <class Real>
::testing::AssertionResult are_eigenpairs(const TridiagonalCase<Real>& t,
                                          const TridiagonalTruth<Real>& truth, const Real* values,
                                          const DenseMatrix<Real>& z);

/// Each within 20 u ||T||_1 of the truth, from its eigenvalue `first` on, and ascending.
template <class Real>
::testing::AssertionResult are_eigenvalues(const TridiagonalTruth<Real>& truth, std::int64_t first,
                                           const std::vector<Real>& values);

}  // namespace shardsolve::testing::tridiagonal
