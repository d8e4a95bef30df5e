/// Reduction of a Hermitian matrix on slabs to a band.
#pragma once

#include "dense/eigh/mirror.hpp"
#include "dense/eigh/row_order.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>

namespace shardsolve::dense::eigh {

/// The panel of one step of the reduction to a band: its columns are the positions from `first` on,
/// its reflectors begin a bandwidth further. That is also so if a step has fewer columns than the
/// bandwidth: from the next step on, they would meet what the panel before has left.
struct Panel {
  Panel(const SlabLayout& layout, Step step);

  std::int64_t first = 0;       ///< position of the first column
  std::int64_t columns = 0;     ///< one a row of the step
  std::int64_t begin = 0;       ///< position of the first row of the reflectors, at most n
  std::int64_t rows = 0;        ///< of the reflectors
  std::int64_t reflectors = 0;  ///< min(rows, columns)

  /// Rows of the panel that are in the band as they are.
  std::int64_t top() const { return begin - first; }
};

/// What every rank has after the reduction. The bandwidth b is the tile of the layout.
template <Scalar T>
struct BandForm {
  /// 2 b + 1 x n: the lower triangle of the band, rows and columns in elimination order, as
  /// BandKernels has it; zeros below.
  MatrixView<T> band;
  /// b x n: triangular factors t of the panels (see BandKernels::panel_qr), each in the columns of
  /// its panel's first positions.
  MatrixView<T> t;
};

/// Memory for it, of this call.
template <Scalar T>
BandForm<T> make_band_form(mesh::Rank& rank, const SlabLayout& layout);

/// How the slabs are updated.
template <Scalar T>
struct SlabUpdates {
  /// Columns of V after which the rest of the slab is updated, at least 1; until then only panels
  /// are.
  std::int64_t deferred = 1;
  /// Of the slab: it is updated on and below the diagonal only. Without one each rank updates what
  /// is above, too, and the two triangles differ by what is rounded: each product takes columns
  /// alone.
  Mirror<T>* mirror = nullptr;
};

/// Q^H A Q = the band, with Q the product of the panels' I - V t V^H, in their order, and all rows
/// and columns in the layout's elimination order. `slab`: the rank's columns of A, both triangles
/// valid, rows in that order; overwritten. Afterwards the first columns of each panel hold its V:
/// that of step s, Panel(layout, s).rows rows from position begin on, unit lower trapezoidal, with
/// its ones and zeros. Waits for the end. Throws Error(cancelled).
///
/// Mirrored, 4/3 n^3 multiplications and additions over all ranks, and n^2 (deferred + 3 b) that
/// each rank makes like all others; each rank receives n^2 elements, and all together
/// n^3 / (6 deferred) beside them. Otherwise 2 n^3, and n^2 elements. LAPACK: the first stage of
/// syevd_2stage.
template <Scalar T>
void full_to_band(mesh::Rank& rank, const SlabLayout& layout, const RowOrder<T>& order,
                  MatrixView<T> slab, const SlabUpdates<T>& updates, const BandForm<T>& form);

}  // namespace shardsolve::dense::eigh
