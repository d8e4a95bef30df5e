/// The residual gates of docs/design: a result is right when its residual is a small multiple of
/// the unit roundoff u, and no worse than four times LAPACK's on the same matrix.
///
/// Ratios are not divided by n: an n-normalised ratio lets a float32 solve done in bfloat16 pass.
/// They are evaluated in wider arithmetic, so neither rounding nor the range of the dtype touches
/// them, and a NaN anywhere makes them NaN, which no gate lets through.
#pragma once

#include "reference/dense_matrix.hpp"

#include <gtest/gtest.h>

namespace shardsolve::testing {

using reference::DenseMatrix;

inline constexpr double solve_gate = 10.0;
inline constexpr double factor_gate = 30.0;
inline constexpr double inverse_gate = 30.0;

/// Without AVX-512 the BLAS adds up fewer partial sums, and other matrices of the zoos miss their
/// gates: docs/design/decisions.md. True on such a CPU, so that tests can leave out these alone.
inline bool has_short_vectors() { return __builtin_cpu_supports("avx512f") == 0; }

/// ||b - A x|| / ((||A|| ||x|| + ||b||) u) in the infinity norm, the largest over the columns.
template <Scalar T>
double solve_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& x, const DenseMatrix<T>& b);

/// ||P A P^T - L L^H|| / (||A|| u) in the 1-norm. Reads the lower triangles of `pap` and `l`.
template <Scalar T>
double factor_ratio(const DenseMatrix<T>& pap, const DenseMatrix<T>& l);

/// ||I - A X|| / (||A|| ||X|| u) in the 1-norm.
template <Scalar T>
double inverse_ratio(const DenseMatrix<T>& a, const DenseMatrix<T>& x);

/// For EXPECT_TRUE(solves(a, x, b)): x passes the gate and is as good as LAPACK's; likewise the
/// others. Where LAPACK fails (at the edge of definiteness) the gate alone decides.
template <Scalar T>
::testing::AssertionResult solves(const DenseMatrix<T>& a, const DenseMatrix<T>& x,
                                  const DenseMatrix<T>& b);

/// `pap` is P A P^T, from reference::permute.
template <Scalar T>
::testing::AssertionResult factors(const DenseMatrix<T>& pap, const DenseMatrix<T>& l);

template <Scalar T>
::testing::AssertionResult inverts(const DenseMatrix<T>& a, const DenseMatrix<T>& x);

/// The verdict `positive_definite` on A is one that rounding explains: it lies between LAPACK's on
/// A - 4 u ||A||_1 I and on A + 4 u ||A||_1 I.
template <Scalar T>
::testing::AssertionResult verdict_is_explained(const DenseMatrix<T>& a, bool positive_definite);

}  // namespace shardsolve::testing
