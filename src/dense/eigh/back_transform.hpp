/// From eigenvectors of the tridiagonal to those of the matrix.
#pragma once

#include "dense/eigh/sweep_groups.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>

namespace shardsolve::dense::eigh {

// In all of them `z` has n rows and this rank's columns, any number; it is overwritten. Each waits
// for the end.

/// z = Q z for the Q of band_to_tridiagonal: eigenvectors of the tridiagonal become those of the
/// band. `reflectors`: what this rank has kept of them. Throws Error(cancelled).
/// 2 n^2 (1 + size / b) multiplications and additions a column, with groups of `size` sweeps and b
/// the bandwidth; each rank receives n^2 / 2 numbers.
template <Scalar T>
void apply_sweeps(mesh::Rank& rank, const SweepGroups& groups, MatrixView<T> reflectors,
                  MatrixView<T> z);

/// z = Q z for the Q of full_to_band, rows in elimination order: eigenvectors of the band become
/// those of the matrix. `slab` and `t` (BandForm): as full_to_band left them. Panels are applied so
/// many columns at a time as fit in `merged`, at least one of them. Throws Error(cancelled).
/// 2 n^2 multiplications and additions a column; each rank receives n^2 / 2 numbers.
template <Scalar T>
void apply_panels(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab, MatrixView<T> t,
                  std::int64_t merged, MatrixView<T> z);

}  // namespace shardsolve::dense::eigh
