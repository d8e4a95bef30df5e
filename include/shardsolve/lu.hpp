/// General square systems: LU with partial pivoting, solve, inverse, determinant, condition.
#pragma once

#include <shardsolve/cholesky.hpp>
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

/// What an LU factor that has overwritten its matrix keeps of it: sums of its rows and columns with
/// random signs.
template <Scalar T>
struct LuSketch {
  RightHandSides<T> sums;  ///< n x 16, beside the factor
  Scaled frobenius_norm;   ///< ||A||_F within some ten per cent
};

/// P A Q^T = L U, where Q is the elimination order of the layout (see SlabLayout) and P the row
/// exchanges that bring the largest entry of each column to its diagonal; kept to be used again.
/// L, with ones on its diagonal, and U lie in `slabs`, row i of both in row i. Copies share the
/// memory.
template <Scalar T>
struct LuFactor {
  ShardedMatrix<T> slabs;
  /// A itself, which solves read for their certificates and to refine: it must stay as it is. Or
  /// what has overwritten it: `slabs`.
  ShardedMatrix<T> matrix;
  /// The row of A that came to each place; n values.
  std::shared_ptr<std::vector<std::int64_t>> rows;
  Scaled one_norm;  ///< ||A||_1, the largest sum of a column's moduli
  Scaled inf_norm;  ///< ||A||_inf, the largest sum of a row's
  /// ok; singular, where the factor is there and solves nothing; or why there is no factor. If U
  /// has left the range (overflow), the growth is infinite; solve() has an answer all the same.
  Outcome outcome;
  T sign{1};  ///< det(A) = sign * exp(log_modulus)
  /// log|det(A)|; NaN if there is no factor.
  double log_modulus = std::numeric_limits<double>::quiet_NaN();
  /// Only where the factor has overwritten A.
  std::optional<LuSketch<T>> sketch = {};

  const SlabLayout& layout() const { return slabs.layout(); }
};

/// Factors a general square matrix, which is read and not overwritten. LAPACK: getrf.
///
/// `a`: n x n, on as many slabs as `mesh` has ranks. `into`: memory for L and U on the same layout;
/// without it the call takes its own, as large as A. If `into` is `a`, A is overwritten; the factor
/// keeps a sketch of it, 16 numbers a row, with which answers are certified but not refined.
/// Looks at A once before anything is written: refuses NaN and Inf (outcome). A pivot of exactly 0
/// gives the outcome `singular`, with its place. Pivots are chosen by |re| + |im|, the first of
/// equals, whatever the timing. Costs 2 n^3 / 3 operations (complex: four times that) spread evenly
/// over the ranks, but for panels, which their owners factor while the others update; moves about
/// n^2 / 2 elements to each rank. Workspace on each rank: three panels of up to n x tile elements.
/// On GPUs a panel's rows lie in registers: of more than half a million rows (complex128: half of
/// that) it is refused.
/// Throws Error: invalid_argument if the layout does not fit the mesh, unsupported on a GPU for so
/// many rows, out_of_memory, cancelled, communication.
template <Scalar T>
SHARDSOLVE_EXPORT LuFactor<T> lu_factor(Mesh& mesh, ShardedMatrix<T> a,
                                        const RunOptions& options = {});
template <Scalar T>
SHARDSOLVE_EXPORT LuFactor<T> lu_factor(Mesh& mesh, ShardedMatrix<T> a, ShardedMatrix<T> into,
                                        const RunOptions& options = {});

/// Which system a factor of A is to solve.
enum class Transpose : std::uint8_t {
  none,       ///< A X = B
  transpose,  ///< A^T X = B
  adjoint,    ///< A^H X = B
};

/// Solves with a factor; X replaces B. LAPACK: getrs, gerfs.
///
/// `b`: n x k on the factor's layout, any k. Costs 2 n^2 operations a right-hand side, and about as
/// long again for the residual with A, in twice the precision (of more than eight right-hand sides
/// that of the worst alone; of the others by the BLAS); while it says that X is not as accurate as
/// rounding allows, by the norm or in one equation, up to three steps of refinement follow. The
/// outcome has the backward error, that by components, and the growth. Where the growth
/// is above 1 / sqrt(u), or above 1000 and the error stays above 10 u, or X leaves the range, as
/// with subnormal pivots, X is that of a QR factorisation of A, if there is memory for it
/// (plan_least_squares). Without, the status is `inaccurate`, or `overflow`, and there is no X to
/// rely on: `b` is as it was, or holds what was computed.
/// Where A was overwritten X is that of one solve, and the backward error that in the Frobenius
/// norm, ||A X - B|| / (||A||_F ||X|| + ||B||) by columns, estimated by the sketch: the norm of a
/// residual is said four times too small for one right-hand side in some 8000. Above the larger of
/// 10 and sqrt(n) units of rounding the status is `inaccurate`.
/// Right-hand sides with NaN or Inf are refused (outcome, `b` intact). Workspace on each rank: n x
/// min(k, tile) elements seven times. Throws Error: invalid_argument if the factor's outcome is not
/// ok, if A was overwritten and there is no sketch of it, or shapes differ, and as above.
template <Scalar T>
SHARDSOLVE_EXPORT Outcome lu_solve(Mesh& mesh, const LuFactor<T>& factor, RightHandSides<T> b,
                                   const RunOptions& options = {},
                                   Transpose transpose = Transpose::none);

/// Replaces a factor by the inverse of A, in the memory of L and U. LAPACK: getri.
///
/// Costs 4 n^3 / 3 operations, spread evenly over the ranks, and moves about 3 n^2 / 2 elements to
/// each rank, and its slab once more. Where the factor has memory of its own A stays as it is;
/// where it has overwritten A, X does. The factor is consumed, in all its copies, when there is
/// memory for it all and before anything is written.
/// The outcome has the exact rcond in the 1-norm, and as backward error the largest
/// ||A x - e|| / (||A|| ||X||) of a column, the residual in the 2-norm, as eight vectors of random
/// signs see it, and the matrices in the 1-norm. So it is A X that is I up to rounding; X A need
/// not be where rcond is near the unit roundoff, as with other methods, of which each has one of
/// the two. Above 10 units of rounding the status is `inaccurate`, and `overflow` if X does not fit
/// the dtype. If A is still there, and memory for another slab and for solves, such an X is
/// replaced by that of lu_solve with the columns of I, as is that of a factor whose growth is above
/// 1 / sqrt(u), at some six times the cost; the outcome then is that of lu_solve, with rcond.
/// Workspace on each rank: three panels of n x tile elements and two of a slab's width.
/// Throws Error as lu_solve.
template <Scalar T>
SHARDSOLVE_EXPORT Outcome lu_inverse(Mesh& mesh, LuFactor<T>&& factor,
                                     const RunOptions& options = {});

/// Reciprocal condition number in the 1-norm, as of cholesky.hpp, by solves with A and A^H: about
/// five. With `transpose` that of A^T or A^H, which is that of A in the infinity norm. Where the
/// growth is above 1 / sqrt(u), L U is another matrix, and where A^-1 is out of the range nothing
/// is divided by its pivots: then that of R of A = Q R, columns scaled, if A is still there and
/// memory for it. 0 for a singular matrix. Throws Error(invalid_argument) if there is no factor,
/// Error(unsupported) where the growth is above 1 / sqrt(u) and there is no QR.
template <Scalar T>
SHARDSOLVE_EXPORT double condition_estimate(Mesh& mesh, const LuFactor<T>& factor,
                                            const RunOptions& options = {},
                                            Transpose transpose = Transpose::none);

}  // namespace shardsolve
