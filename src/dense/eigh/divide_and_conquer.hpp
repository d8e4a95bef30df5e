/// Eigenvalues and eigenvectors of a real symmetric tridiagonal matrix.
#pragma once

#include "dense/eigh/tridiagonal_problem.hpp"
#include "mesh/rank.hpp"
#include "runtime/tridiagonal_kernels.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::eigh {

/// What divide and conquer is asked for. The same on every rank.
template <class Real>
struct DivideAndConquerProblem {
  const std::vector<Real>& diagonal;      ///< n numbers
  const std::vector<Real>& off_diagonal;  ///< n - 1, none if n is 0
  /// Rank r has rows bounds[r] .. bounds[r + 1] - 1 of Z, maybe none: as SlabLayout::boundaries().
  const std::vector<std::int64_t>& bounds;
  /// Eigenvectors wanted.
  IndexRange wanted;
};

/// All eigenvalues of T, on every rank, and this rank's rows of the eigenvectors wanted.
///
/// `z`: this rank's rows of an n x n matrix in device memory, which is overwritten: as its first
/// columns, as many as are wanted, come the eigenvectors by rising eigenvalue. They are ready for
/// what follows on the update queue. If T holds what is no number, or a part of it does not
/// converge, the outcome says so on all ranks, and z is of no use.
///
/// About 4/3 n^3 operations on all ranks together before deflation, which leaves out the more the
/// closer eigenvalues are, and n^3 / 3 + n^2 k for k eigenvectors. A merge of parts of several
/// ranks moves one row of each part and one root an eigenvalue to all ranks, and nothing of Z;
/// which rank is how late changes no bits. Waits a few times for each merge of several ranks, and
/// twice for all merges of a level that one rank makes by itself. LAPACK: stedc. Source: M. Gu and
/// S. C. Eisenstat, SIAM J. Matrix Anal. Appl. 16 (1995) 172; J. Rutter, LAPACK Working Note 69.
/// Throws Error(cancelled), Error(out_of_memory).
template <class Real>
TridiagonalOutcome<Real> divide_and_conquer(mesh::Rank& rank,
                                            const DivideAndConquerProblem<Real>& problem,
                                            MatrixView<Real> z);

/// Bytes of device memory that a rank with `rows` rows of Z takes for it, beside z.
template <class Real>
std::int64_t divide_and_conquer_bytes(std::int64_t n, std::int64_t rows,
                                      const runtime::TridiagonalTuning& tuning);

}  // namespace shardsolve::dense::eigh
