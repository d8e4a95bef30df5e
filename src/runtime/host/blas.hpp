/// The BLAS and LAPACK routines that the host kernels call, overloaded on the dtype, sizes checked.
#pragma once

#include "runtime/kernel_arguments.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/error.hpp>
#include <shardsolve/matrix_view.hpp>

#include <complex>
#include <cstdint>
#include <string>

namespace shardsolve::runtime::host::blas {

/// Sets a BLAS that is ours alone to one thread, once: the ranks are the threads. A BLAS that is
/// shared with the process is left as it is.
void use_one_thread();

/// What the BLAS says of itself; empty where it is no OpenBLAS.
struct Description {
  std::string version;  ///< "OpenBLAS 0.3.21"
  std::string kernels;  ///< the CPU that they were made for: "SkylakeX"
};
Description describe();

/// One dtype's routines; all static. Instantiated for the four dtypes.
template <Scalar T>
struct Blas {
  using Real = RealOf<T>;
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;

  static void gemm(Op op_a, Op op_b, T alpha, In a, In b, T beta, Out c);
  /// y = alpha op(a) x + beta y; x and y are contiguous vectors.
  static void gemv(Op op, T alpha, In a, const T* x, T beta, T* y);
  static void herk(Triangle triangle, Op op, Real alpha, In a, Real beta, Out c);
  static void trsm(Side side, Triangle triangle, Op op, In a, Out b);
  /// Solves op(a) X = b for the lower triangle of a with ones on the diagonal.
  static void trsm_unit_lower(Op op, In a, Out b);
  /// LAPACK's info: 0, or the 1-based column of the pivot that was not positive.
  static std::int64_t potrf(Triangle triangle, Out a);

  /// a += alpha x y^H.
  static void gerc(T alpha, const T* x, const T* y, Out a);
  /// y = alpha a x + beta y for Hermitian a, of which one triangle is read.
  static void hemv(Triangle triangle, T alpha, In a, const T* x, T beta, T* y);
  /// One triangle of a += alpha x y^H + conj(alpha) y x^H.
  static void her2(Triangle triangle, T alpha, const T* x, const T* y, Out a);
  /// a = Q R with Q = I - V t V^H as one block: t has as many rows and columns as a has at least
  /// of either. `work`: t.rows() a.columns() elements.
  static void geqrt(Out a, Out t, T* work);
  /// The reflector I - tau v v^H, v_0 = 1, whose adjoint takes x to (beta, 0, ..., 0), beta real.
  /// beta and the rest of v replace x, of n elements; tau is returned.
  static T larfg(std::int64_t n, T* x);
  /// The upper triangle t of the product I - v t v^H of v.columns() reflectors, v unit lower
  /// trapezoidal.
  static void larft(In v, const T* tau, Out t);
  /// a = Q R by reflectors, m x n: R in the upper trapezoid, what form_q() needs below it and in
  /// tau, of min(m, n) elements. LAPACK: geqrf.
  static void geqrf(Out a, T* tau);
  /// The first a.columns() columns of Q in place of what geqrf() left, of as many reflectors.
  /// LAPACK: orgqr, ungqr.
  static void form_q(Out a, const T* tau);
  /// a = u diag(s) vh for square a, which is overwritten; s descends. `u` and `vh` may be empty:
  /// then it is s alone. LAPACK's info: 0, or not converged. LAPACK: gesdd.
  static std::int64_t gesdd(Out a, Real* s, Out u, Out vh);
};

/// Eigenvalues, ascending, in place of the diagonal of a tridiagonal matrix, and its eigenvectors
/// in `z`, which is as large. Overwrites the off-diagonal. LAPACK's info: 0, or how many of its
/// entries did not converge to zero.
template <class Real>
std::int64_t steqr(Real* diagonal, Real* off_diagonal, MatrixView<Real> z);

/// Singular values, descending, of an upper bidiagonal matrix of order n, in place of its diagonal,
/// and u and vt with B = u diag(s) vt, unless both are empty. Overwrites the off-diagonal, n
/// numbers of which the last is of no meaning. LAPACK's info: 0, or not converged. LAPACK: bdsdc.
std::int64_t bdsdc(std::int64_t n, double* diagonal, double* off_diagonal, MatrixView<double> u,
                   MatrixView<double> vt);

}  // namespace shardsolve::runtime::host::blas
