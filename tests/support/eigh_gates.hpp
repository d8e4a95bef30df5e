/// The gates of Hermitian eigensolvers: as in gates.hpp a result is right when its residual is a
/// small multiple of the unit roundoff u, or no worse than four times LAPACK's on the same matrix.
///
/// A matrix that is tridiagonal already (or diagonal) costs LAPACK hardly any rounding; a solver
/// that works on another order of its rows has no such luck. There LAPACK's residuals are those on
/// a random rotation of the matrix.
#pragma once

#include "reference/dense_matrix.hpp"
#include "reference/eigh.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace shardsolve::testing {

using reference::DenseMatrix;
using reference::Eigenpairs;

/// Of both ratios, where four times LAPACK's is less. LAPACK's grow with n: at n = 500 they are
/// about 30 and 450.
inline constexpr double eigh_gate = 10.0;
inline constexpr double eigenvalue_gate = 20.0;

/// ||A Z - Z diag(w)|| / (||A|| u) in the 1-norm.
template <Scalar T>
double eigh_residual_ratio(const DenseMatrix<T>& a, const Eigenpairs<T>& pairs);

/// ||Z^H Z - I|| / u in the 1-norm.
template <Scalar T>
double orthogonality_ratio(const DenseMatrix<T>& z);

/// The largest |w_i - w'_i| / (max_i |w'_i| u).
template <Scalar T>
double eigenvalue_distance(const std::vector<RealOf<T>>& w, const std::vector<double>& other);

/// For EXPECT_TRUE(diagonalises(a, pairs)): all eigenvalues, in ascending order and within
/// eigenvalue_gate of LAPACK's, and vectors that pass the gates.
///
/// LAPACK's eigenvalues are those of syevd or heevd with vectors, in float64: what it computes
/// without vectors, or in float32, is itself off by more than the gate lets through. Even these are
/// off by 12 u ||A|| in clusters at n = 90, so that values between one and two gates from them are
/// held against the oracle's, reference::eigh.
template <Scalar T>
::testing::AssertionResult diagonalises(const DenseMatrix<T>& a, const Eigenpairs<T>& pairs);

/// Of all eigenpairs, residual and orthogonality alone.
template <Scalar T>
::testing::AssertionResult has_eigenpairs(const DenseMatrix<T>& a, const Eigenpairs<T>& pairs);

/// Likewise of eigenvalues without vectors.
template <Scalar T>
::testing::AssertionResult has_eigenvalues(const DenseMatrix<T>& a,
                                           const std::vector<RealOf<T>>& values);

}  // namespace shardsolve::testing
