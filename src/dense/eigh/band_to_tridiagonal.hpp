/// Reduction of a Hermitian band matrix to a real symmetric tridiagonal one.
#pragma once

#include "dense/eigh/sweep_groups.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <optional>

namespace shardsolve::dense::eigh {

/// Memory for the reflectors that this rank keeps, of this call: bandwidth + 1 rows, and its groups
/// side by side.
template <Scalar T>
MatrixView<T> make_reflectors(mesh::Rank& rank, const SweepGroups& groups);

/// Those of one group that this rank keeps, as runtime::SweepGroup has them.
template <class T>
MatrixView<T> reflectors_of(const SweepGroups& groups, MatrixView<T> kept, std::int64_t group) {
  return kept.columns_from(groups.columns_before(group), groups.columns(group));
}

/// Chases the band (see BandKernels; 2 b + 1 x n) on rank 0, which overwrites it; that of the other
/// ranks is not used. One rank makes all reflectors: rounding decides what they look like, so two
/// CPUs that round differently would make different ones. `reflectors`: of make_reflectors; those
/// of each group go to its owner while the next group is chased. None, on all ranks: they are not
/// kept. `tridiagonal` (n x 2), on every rank afterwards: the diagonal, and the n - 1 numbers
/// beside it with a 0 behind. Waits for the end. Throws Error(cancelled).
///
/// Q^H B Q = the tridiagonal, where Q is the product of all reflectors, sweep after sweep. 6 n^2 b
/// multiplications and additions on rank 0; n^2 / 2 numbers leave it. LAPACK: hbtrd.
template <Scalar T>
void band_to_tridiagonal(mesh::Rank& rank, const SweepGroups& groups, MatrixView<T> band,
                         std::optional<MatrixView<T>> reflectors,
                         MatrixView<RealOf<T>> tridiagonal);

}  // namespace shardsolve::dense::eigh
