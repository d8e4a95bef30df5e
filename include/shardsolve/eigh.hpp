/// Eigenvalues and eigenvectors of Hermitian matrices.
#pragma once

#include <shardsolve/cholesky.hpp>
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

/// Which eigenvalues eigh() is to find, and whether their eigenvectors: all with vectors, if
/// nothing else is said. Not both ranges.
struct EighRequest {
  /// Eigenvalues first <= i < last of all n, counted from the smallest.
  struct Indices {
    std::int64_t first = 0;
    std::int64_t last = 0;
  };
  /// Eigenvalues low < w <= high, up to rounding of a few u ||A||; none if high <= low.
  struct Values {
    double low = 0.0;
    double high = 0.0;
  };

  bool vectors = true;
  /// Z^H instead of Z comes into A's memory: on each rank its first rows, as many as there are
  /// eigenvectors, hold the columns of Z^H with the numbers of A's. Rows of A in row-major order
  /// then hold the same rows of Z, in row-major order, too.
  bool adjoint = false;
  std::optional<Indices> indices;
  std::optional<Values> values;
};

/// What eigh() has found; the same in every process.
template <Scalar T>
struct Eigenvalues {
  /// Those asked for, ascending. None unless the outcome is ok.
  std::vector<RealOf<T>> values;
  /// How many eigenvectors there are: as many as values, or 0 if none were asked for.
  std::int64_t vectors = 0;
  /// ok, nonfinite_input or not_hermitian (`a` is intact), not_converged, or overflow if an
  /// eigenvalue does not fit the dtype. With vectors it has `residual` and `orthogonality`.
  Outcome outcome;
};

/// A Z = Z diag(w), Z^H Z = I for the Hermitian matrix `a`, which is overwritten. LAPACK: heevd,
/// heevr.
///
/// `a`: n x n, both triangles valid, on as many slabs as `mesh` has ranks; of its layout the
/// boundaries count, not the tile. Imaginary parts of the diagonal are taken for rounding. Z comes
/// into A's memory, on the same slabs and so a ShardedMatrix like A: column j of Z is the
/// eigenvector of values[j], of norm 1, its entry of largest modulus (the first of equals) real and
/// positive, whole on the rank that had column j of A. With fewer
/// vectors than columns, the other columns of `a` are of no use afterwards, and ranks without
/// vectors have less to do. Without vectors all of `a` is of no use. A caller whose slabs are rows
/// of A in row-major order has given columns of conj(A): values are those of A, vectors the
/// conjugates of A's.
///
/// About 4/3 n^3 multiplications and additions for values (2 n^3 on several GPUs), and up to
/// 4/3 n^3 + 4 n^2 k more for k vectors, spread over the ranks. The same bits on every run with the
/// same ranks and boundaries. The certificate is found with A times four vectors of random signs,
/// made before A is gone. Throws Error: invalid_argument if the layout does not fit the mesh, both
/// ranges are given, indices are not 0 <= first <= last <= n, or a bound of values is a NaN;
/// unsupported on devices without kernels for it; out_of_memory, cancelled, communication.
template <Scalar T>
SHARDSOLVE_EXPORT Eigenvalues<T> eigh(Mesh& mesh, ShardedMatrix<T> a,
                                      const EighRequest& request = {},
                                      const RunOptions& options = {});

/// A Z = B Z diag(w), Z^H B Z = I, for the Hermitian matrix `a` and the factor of a positive
/// definite matrix B, which is kept. LAPACK: hegv.
///
/// `b`: of cholesky_factor(), on the same boundaries; its tile may be another. L^-1 A L^-H takes
/// 2 n^3 multiplications and additions more, L^-H Z n^2 for each vector. `residual` is the backward
/// error ||A z - w B z|| / ((||A|| + |w| ||B||) ||z||), `orthogonality` of Z^H B Z - I: where B is
/// badly conditioned, both may be larger than rounding by a factor of its condition number. Where
/// L^-1 A L^-H leaves the range the outcome is an overflow, and `a` is of no use.
/// Throws Error as above, and invalid_argument if b's outcome is not ok or its boundaries differ.
template <Scalar T>
SHARDSOLVE_EXPORT Eigenvalues<T> eigh(Mesh& mesh, ShardedMatrix<T> a, const CholeskyFactor<T>& b,
                                      const EighRequest& request = {},
                                      const RunOptions& options = {});

}  // namespace shardsolve
