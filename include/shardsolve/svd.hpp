/// Singular values and vectors, and polar factors, of matrices of any shape that are cut by rows.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/qr.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/sharded.hpp>

#include <vector>

namespace shardsolve {

/// What svd() and svdvals() have found; the same in every process.
template <Scalar T>
struct SingularValues {
  /// min(m, n) of them, descending, none negative. Empty unless the outcome is ok.
  std::vector<RealOf<T>> values;
  /// ok; nonfinite_input, of A; overflow, if a value does not fit the dtype; not_converged. With
  /// vectors it has `residual`, ||A - U S V^H|| / ||A|| in the Frobenius norm, and `orthogonality`,
  /// the larger of the largest 2-norms of a row of U^H U - I and of V^H V - I, all as four vectors
  /// of random signs see them; rounding alone gives a few units of the unit roundoff.
  Outcome outcome;
};

/// A = U diag(s) V^H for any shape and rank, with U^H U = I and V^H V = I to rounding also where
/// singular values are 0. LAPACK: gesdd, the economic form. A stays.
///
/// `a`: m x n; `u`: m x k on the same boundaries and `v`: n x k, k = min(m, n), which are written:
/// as many blocks each as `mesh` has ranks, which may be empty. What is done with k x k matrices is
/// spread over the ranks like the rows of V, or where m < n those of U; their layout's tile is that
/// of its Cholesky factors. Singular vectors are those of one run: signs (phases) are V's largest
/// entry of a column being real and positive (of U's, for m < n).
///
/// On GPUs by a polar factorisation A = P H (QDWH: products and Cholesky factors alone) and the
/// eigenpairs of H: about 60 k^3 multiplications and additions beside eigh's (complex: four times
/// as much). Where m >= 4 n, QR comes first, 4 m n k more. On CPU ranks, for k <= 8192, by a
/// bidiagonal form: about 7 k^3, and LAPACK's part of it on the first one, which cannot be
/// cancelled and takes 6 k^2 numbers; where m >= 2 n QR comes first. Where m < n, all is done for
/// A^H, which crosses the ranks once. Values are within a few u of ||A||, as LAPACK's. Workspace
/// and memory of the call: plan_svd(), refused with both figures if it is not there. The same bits
/// on every run with the same ranks and boundaries. Throws Error: invalid_argument if A has no rows
/// or columns, shapes or boundaries do not fit, or layouts not the mesh; out_of_memory, cancelled,
/// communication. Y. Nakatsukasa, N. J. Higham, SIAM J. Sci. Comput. 35 (2013) A1325.
template <Scalar T>
SHARDSOLVE_EXPORT SingularValues<T> svd(Mesh& mesh, const RowBlocks<T>& a, RowBlocks<T> u,
                                        RowBlocks<T> v, const RunOptions& options = {});

/// What svd() has found, V with it: the same in every process.
template <Scalar T>
struct SingularVectors {
  std::vector<RealOf<T>> values;  ///< as of SingularValues
  std::vector<T> v;               ///< n x n, column-major, without gaps; empty unless ok
  Outcome outcome;                ///< as of SingularValues
};

/// The same with all of V in the memory of each process, as it is wanted where n is small. k x k
/// matrices are spread evenly over the ranks, in tiles of `a`'s layout. Arguments, errors and
/// accuracy as of svd(), for m >= n; else Error(invalid_argument). Each rank needs workspace
/// for n^2 and two of its slabs more.
template <Scalar T>
SHARDSOLVE_EXPORT SingularVectors<T> svd(Mesh& mesh, const RowBlocks<T>& a, RowBlocks<T> u,
                                         const RunOptions& options = {});

/// The singular values alone, with fewer operations and no memory for U and V. Arguments, errors
/// and accuracy as of svd(); k x k matrices are spread evenly, in tiles of `a`'s layout.
template <Scalar T>
SHARDSOLVE_EXPORT SingularValues<T> svdvals(Mesh& mesh, const RowBlocks<T>& a,
                                            const RunOptions& options = {});

/// A = U H for m >= n: U^H U = I, also where A has not full rank; H Hermitian, positive
/// semidefinite to rounding, (A^H A)^(1/2). A stays. On GPUs and CPU ranks by products alone.
///
/// `a`: m x n; `u`: likewise, and `h`: n x n on as many slabs, which are written. Of fewer rows
/// take the adjoint: A^H = U H gives A = H U^H. The outcome is ok, with `residual`,
/// ||A - U H|| / ||A||, and `orthogonality` of U as svd() has them; nonfinite_input; overflow, if H
/// does not fit the dtype; not_converged. Costs and errors as of svd(), without those of eigh; and
/// invalid_argument if there are fewer rows than columns.
template <Scalar T>
SHARDSOLVE_EXPORT Outcome polar(Mesh& mesh, const RowBlocks<T>& a, RowBlocks<T> u,
                                ShardedMatrix<T> h, const RunOptions& options = {});

/// What polar() has found, H with it: the same in every process.
template <Scalar T>
struct PolarFactor {
  std::vector<T> h;  ///< n x n, column-major, without gaps; empty unless ok
  Outcome outcome;
};

/// The same with all of H in the memory of each process; spread and tiles as of svd() with V there.
template <Scalar T>
SHARDSOLVE_EXPORT PolarFactor<T> polar(Mesh& mesh, const RowBlocks<T>& a, RowBlocks<T> u,
                                       const RunOptions& options = {});

}  // namespace shardsolve
