/// Matrices of any shape, cut by rows: QR, least squares, minimum norm, ridge.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/sharded.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace shardsolve {

/// An m x n matrix cut by rows at the boundaries of a layout of size m: block r, column-major, has
/// the rows of rank r. The same as right-hand sides.
template <Scalar T>
using RowBlocks = RightHandSides<T>;

/// Whether qr() gives Q.
enum class QrMode : std::uint8_t {
  reduced,  ///< Q in place of A, and R
  r,        ///< R alone; A stays
};

/// What qr() has found; the same in every process.
template <Scalar T>
struct QrFactor {
  /// n x n, column by column: zeros below the diagonal, which is real and not negative. Empty
  /// unless the outcome is ok.
  std::vector<T> r;
  /// ok, nonfinite_input (A is intact), or overflow if an entry of R does not fit the dtype. With Q
  /// it has `residual`, ||A - Q R|| / ||A|| in the Frobenius norm for A with columns at equal size,
  /// and `orthogonality`, the largest 2-norm of a row of Q^H Q - I, both as four vectors of random
  /// signs see them; rounding alone gives a few units of the unit roundoff.
  Outcome outcome;
};

/// A = Q R for m >= n; Q, m x n with Q^H Q = I to rounding whatever A is, replaces A. LAPACK:
/// geqrf, orgqr.
///
/// `a`: m x n on as many blocks as `mesh` has ranks, which may be empty; its tile does not matter.
/// R's diagonal is real and not negative: with full column rank Q and R are the only ones, so
/// meshes agree.
///
/// m >= 2 n, and any shape on GPUs: CholeskyQR in as many passes as A needs: two up to a condition
/// number of about 1e5, five where columns depend on each other; each takes 2 m n^2 operations
/// (complex: four times that), spread over the ranks like the rows, and moves 3 n^2 numbers to and
/// from each rank. R is made on the first rank. Workspace on each rank: its rows of A and
/// (8 + 2 ranks) n^2 numbers in double precision. Y. Yamamoto, Y. Nakatsukasa, Y. Yanagisawa, T.
/// Fukaya, ETNA 44 (2015) 306.
///
/// m < 2 n on CPU devices: reflections of whole columns, which are dealt to the ranks in blocks, in
/// the dtype of A. 2 n^2 (m - n / 3) operations, and as many for Q. Each rank receives some
/// n (2 m - n) numbers. Workspace on each rank: its share of the columns, and some 10 blocks of up
/// to 64 columns. The host of each process has all of R.
///
/// Workspace that is not there is refused with both figures. Throws Error: invalid_argument if
/// there are fewer rows than columns, no columns, or the layout does not fit the mesh;
/// out_of_memory, cancelled, communication.
template <Scalar T>
SHARDSOLVE_EXPORT QrFactor<T> qr(Mesh& mesh, RowBlocks<T> a, QrMode mode = QrMode::reduced,
                                 const RunOptions& options = {});

/// Likewise with R in slabs, so that for m < 2 n on CPU devices nobody has all of it: [R; 0],
/// m x n and cut as `a` is, comes to `r`, whose memory is not that of `a`. The outcome is that of
/// QrFactor; unless it is ok, `r` holds nothing of use. Throws Error likewise, and invalid_argument
/// unless `r` is as `a`.
template <Scalar T>
SHARDSOLVE_EXPORT Outcome qr(Mesh& mesh, RowBlocks<T> a, RowBlocks<T> r,
                             QrMode mode = QrMode::reduced, const RunOptions& options = {});

/// What least_squares(), lstsq() and ridge() have found; the same in every process.
template <Scalar T>
struct LeastSquares {
  /// n x k, column by column. Empty unless there is an answer.
  std::vector<T> x;
  /// ||b - A x||_2 of each column, in double precision. Empty likewise.
  std::vector<double> residuals;
  /// As many columns (rows, if there are fewer) as are independent; of least_squares() and ridge()
  /// all or, if there is no answer, 0.
  std::int64_t rank = 0;
  /// Of lstsq(): min(m, n) of them, descending.
  std::vector<double> singular_values;
  /// ok; nonfinite_input; rank_deficient (of least_squares alone); nearly_singular (of ridge alone,
  /// where eps is below rounding: x is there); overflow, if x does not fit the dtype;
  /// not_converged, of singular values.
  ///
  /// `backward_error`: the largest over the columns of B of the least of ||Q^H r|| / (||A|| ||x||),
  /// ||A^H r|| / (||A|| ||r||), ||r|| / (||A|| ||x||) for r = b - A x, summed in twice the
  /// precision: each is a perturbation of A, whose columns are scaled to equal size, for which x is
  /// exact (G. W. Stewart; R. Karlson, B. Walden, BIT 37 (1997) 862). With a rank that is not full
  /// it speaks of the subspace that was kept. `rcond`: 1 / (||R||_1 ||R^-1||_1) of R with columns
  /// scaled to equal size.
  Outcome outcome;
};

/// min ||b - A x||_2 of each column of B for m >= n; for m < n the shortest x with A x = b. A and B
/// stay. LAPACK: gels.
///
/// `a`: m x n, `b`: m x k on the same layout. Full rank is asked for: where columns (rows, for
/// m < n), scaled to equal size, depend on each other to working precision, rcond < max(m, n) 2 u,
/// the outcome is `rank_deficient`. Scales of columns do not count: rcond says how many digits D x
/// has, D the lengths of the columns, and an x_j whose column adds little to A x has fewer. By QR
/// of A (of A^H, which crosses the ranks once, for m < n) and up to two steps of refinement, each
/// kept where the backward error falls. Workspace as of qr() for m >= 2 n, its rows of B three
/// times, and for m < n its columns of A twice. Throws Error as qr(), and invalid_argument if
/// shapes differ or A has no rows.
template <Scalar T>
SHARDSOLVE_EXPORT LeastSquares<T> least_squares(Mesh& mesh, const RowBlocks<T>& a,
                                                const RowBlocks<T>& b,
                                                const RunOptions& options = {});

/// Of all x that make ||b - A x||_2 least the shortest one, whatever the rank of A; and that rank,
/// and the singular values. As numpy.linalg.lstsq. LAPACK: gelsd.
///
/// Singular values of at most `rcond` times the largest count as 0; by default max(m, n) 2 u, as
/// NumPy's. Each is within a few u of the largest, so an rcond of some u or less decides nothing.
/// Arguments and costs as of least_squares(), and for the singular values of R, n x n, about 20 n^3
/// operations on the first rank; from n = 512 on GPUs, 1536 on CPU devices (3072 on one), as
/// svdvals() over all ranks, and once more as svd() where the rank is not full. Workspace:
/// plan_least_squares(). Throws Error likewise, and invalid_argument unless 0 < rcond < 1.
template <Scalar T>
SHARDSOLVE_EXPORT LeastSquares<T> lstsq(Mesh& mesh, const RowBlocks<T>& a, const RowBlocks<T>& b,
                                        std::optional<double> rcond = std::nullopt,
                                        const RunOptions& options = {});

/// x that makes ||b - A x||^2 + eps ||x||^2 least: x = (A^H A + eps I)^-1 A^H b = A^H (A A^H +
/// eps I)^-1 b, for any shape and rank of A.
///
/// By QR of [A; sqrt(eps) I], which loses nothing of a small eps. The certificate is that of the
/// system with sqrt(eps) I below A, residuals are those of A. Arguments and costs as of
/// least_squares(); the first rank holds min(m, n) rows more. Throws Error likewise, and
/// invalid_argument unless eps > 0 is finite and sqrt(eps) is a number of the dtype.
template <Scalar T>
SHARDSOLVE_EXPORT LeastSquares<T> ridge(Mesh& mesh, const RowBlocks<T>& a, const RowBlocks<T>& b,
                                        double eps, const RunOptions& options = {});

}  // namespace shardsolve
