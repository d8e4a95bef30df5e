/// Hermitian positive definite systems: factor, solve, inverse, log-determinant, condition.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/scaled.hpp>
#include <shardsolve/sharded.hpp>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace shardsolve {

/// P A P^T = L L^H for the elimination order P of the layout (see SlabLayout), kept to be used
/// again. Lives in the memory of the matrix that it was made from: L replaces the entries on and
/// below the diagonal in elimination order, the others are still A's. Together with A's saved
/// diagonal that is what later certificates need. Copies share the memory.
template <Scalar T>
struct CholeskyFactor {
  ShardedMatrix<T> slabs;
  /// The real diagonal of A, in the caller's order; n values.
  std::shared_ptr<std::vector<RealOf<T>>> diagonal;
  /// ||A||_1 = ||A||_inf.
  Scaled norm;
  /// ok, or why there is no factor; then the slabs hold nothing of use.
  Outcome outcome;
  /// 2 sum log(L_ii); NaN if there is no factor.
  double log_determinant = std::numeric_limits<double>::quiet_NaN();

  const SlabLayout& layout() const { return slabs.layout(); }
};

/// Factors the Hermitian positive definite matrix `a`, overwriting it. LAPACK: potrf.
///
/// `a`: n x n, both triangles valid, on as many slabs as `mesh` has ranks. Looks at A once before
/// anything is written: refuses NaN, Inf and matrices that are not Hermitian (outcome, `a` intact).
/// Costs n^3 / 3 operations (complex: four times that) spread evenly over the ranks, and moves
/// about n^2 / 2 elements to each rank. Workspace on each rank: three panels of up to n x tile
/// elements and four tiles; on GPUs their kernels keep up to 64 MiB a queue besides.
/// A matrix that is not positive definite ends the work early with the pivot in the outcome.
/// Throws Error: invalid_argument if the layout does not fit the mesh, out_of_memory, cancelled,
/// communication.
template <Scalar T>
SHARDSOLVE_EXPORT CholeskyFactor<T> cholesky_factor(Mesh& mesh, ShardedMatrix<T> a,
                                                    const RunOptions& options = {});

/// Solves A X = B with a factor; X replaces B. LAPACK: potrs.
///
/// `b`: n x k on the factor's layout, any k. Costs 2 n^2 operations a right-hand side, and as much
/// again for the certificate: the outcome holds the backward error, found with the entries of A
/// that the factor kept. Right-hand sides with NaN or Inf are refused (outcome, `b` intact). On
/// overflow `b` holds what was computed. Workspace on each rank: a copy of its rows of B, and
/// n x min(k, tile) elements four times.
/// Throws Error: invalid_argument if the factor's outcome is not ok or shapes differ, and as above.
template <Scalar T>
SHARDSOLVE_EXPORT Outcome cholesky_solve(Mesh& mesh, const CholeskyFactor<T>& factor,
                                         RightHandSides<T> b, const RunOptions& options = {});

/// What cholesky_half() does with the half F of A = F F^H.
enum class Half : std::uint8_t {
  solve,             ///< F^-1 B
  solve_adjoint,     ///< F^-H B
  multiply,          ///< F B
  multiply_adjoint,  ///< F^H B
};

/// A solve or a product with one half of A = F F^H; the result replaces B. LAPACK: trtrs, trmm.
///
/// F = P^T L P for the elimination order P of the layout: its rows and columns are those of A, it
/// is lower triangular in elimination order, and on one rank it is L. So F depends on the layout,
/// as a Hermitian matrix has many halves; F F^H does not. F^-1 B then F^-H gives A^-1 B.
/// `b`: n x k on the factor's layout, any k. Costs n^2 operations a column. There is no
/// certificate: the outcome is ok, nonfinite_input (`b` intact), or overflow, where `b` holds what
/// was computed. Workspace on each rank: 2 n x min(k, tile) elements at most.
/// Throws Error as cholesky_solve; unsupported if `half` is none of the above.
template <Scalar T>
SHARDSOLVE_EXPORT Outcome cholesky_half(Mesh& mesh, const CholeskyFactor<T>& factor,
                                        RightHandSides<T> b, Half half,
                                        const RunOptions& options = {});

/// Replaces a factor by the full Hermitian inverse of A, in the same memory. LAPACK: potri.
///
/// Costs 2 n^3 / 3 operations. The factor is consumed, in all its copies, when there is memory for
/// it all and before anything is written. The outcome holds the exact rcond and the
/// residual of X on a probe vector (see Outcome::backward_error). Workspace on each rank: six
/// panels of n x tile elements. Throws Error as cholesky_solve.
template <Scalar T>
SHARDSOLVE_EXPORT Outcome cholesky_inverse(Mesh& mesh, CholeskyFactor<T>&& factor,
                                           const RunOptions& options = {});

/// log(det(A)) = 2 sum log(L_ii), in double precision. 0 for n = 0.
/// Throws Error(invalid_argument) if the factor's outcome is not ok.
template <Scalar T>
SHARDSOLVE_EXPORT double log_determinant(const CholeskyFactor<T>& factor);

/// Reciprocal condition number 1 / (||A||_1 est(||A^-1||_1)) by Higham's block-free estimator (ACM
/// TOMS 14, 1988; LAPACK: pocon), which takes about five solves. An estimate is never below the
/// true value but for rounding, and rarely more than three times above it. 1 for n = 0.
template <Scalar T>
SHARDSOLVE_EXPORT double condition_estimate(Mesh& mesh, const CholeskyFactor<T>& factor,
                                            const RunOptions& options = {});

/// Whether solve() estimates the condition number: see condition_estimate() for what that costs.
enum class Rcond : std::uint8_t { estimated, left_out };

/// What solve() takes A to be. Other kinds may join; what those below mean, and which is the
/// default, does not change.
enum class Assume : std::uint8_t {
  positive_definite,  ///< Hermitian positive definite
  general,            ///< any square matrix
};

/// Factor, solve and certificate in one call: X replaces B, the factor replaces A. Both are looked
/// at before A is overwritten.
///
/// A is taken to be what `assume` says, by default Hermitian positive definite, and factored by
/// cholesky_factor(). One that is not is refused: the outcome says where it is not Hermitian, or
/// which pivot is not positive. A general one is factored by lu_factor(): it is not overwritten,
/// the factor takes as much memory again, and lu.hpp has the outcomes. With rcond the outcome
/// of either may be `nearly_singular`, where X is there: see Outcome::forward_error.
/// `a`: n x n, both triangles valid. `b`: n x k on the same layout, any k. The outcome has the
/// backward error and, unless `rcond` leaves it out, rcond; the flops and seconds of everything.
/// Processes of one mesh ask for the same.
/// Throws Error as cholesky_factor and cholesky_solve; unsupported if `assume` is none of the
/// above.
template <Scalar T>
SHARDSOLVE_EXPORT Outcome solve(Mesh& mesh, ShardedMatrix<T> a, RightHandSides<T> b,
                                const RunOptions& options = {}, Rcond rcond = Rcond::estimated,
                                Assume assume = Assume::positive_definite);

}  // namespace shardsolve
