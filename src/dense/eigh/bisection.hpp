/// Eigenvalues of a real symmetric tridiagonal matrix, without eigenvectors.
#pragma once

#include "dense/eigh/tridiagonal_problem.hpp"
#include "mesh/rank.hpp"

#include <vector>

namespace shardsolve::dense::eigh {

/// Eigenvalues `wanted` of T, on every rank; each within a few u ||T||. T and the range are the
/// same on every rank. An eigenvalue has the same bits whichever others are asked for, on however
/// many ranks. About 220 n operations an eigenvalue; each rank finds some. LAPACK: stebz.
template <class Real>
TridiagonalOutcome<Real> bisect(mesh::Rank& rank, const std::vector<Real>& diagonal,
                                const std::vector<Real>& off_diagonal, IndexRange wanted);

/// Which eigenvalues of T are in (low, high], up to rounding of a few u ||T||: none if high <= low.
/// Without communication, alike on every rank. None if T holds what is no number. Neither bound is
/// a NaN.
template <class Real>
IndexRange eigenvalues_between(mesh::Rank& rank, const std::vector<Real>& diagonal,
                               const std::vector<Real>& off_diagonal, Real low, Real high);

}  // namespace shardsolve::dense::eigh
