/// What a merge does with one rank's rows of Z.
#pragma once

#include "dense/eigh/deflation.hpp"
#include "dense/eigh/merge_tree.hpp"
#include "dense/eigh/tridiagonal_problem.hpp"
#include "dense/eigh/uploaded_list.hpp"
#include "mesh/rank.hpp"
#include "runtime/kernels.hpp"
#include "runtime/secular_equation.hpp"
#include "runtime/tridiagonal_kernels.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::eigh {

/// Where the eigenvectors of a part go: to place i that of its i-th smallest eigenvalue.
struct MergedPlaces {
  std::vector<std::int64_t> of_roots;  ///< ascending, as the roots do
  std::vector<std::int64_t> of_aside;  ///< of what deflation has set aside, likewise
};

/// Z U, in chunks of rows and panels of U, which are made anew for each chunk. All is enqueued on
/// the update queue.
template <class Real>
class VectorMerge {
 public:
  using Equation = runtime::SecularEquation<Real>;
  using Root = runtime::SecularRoot<Real>;

  /// `rows`: this rank's, which `z` holds, with a column a row of T.
  VectorMerge(mesh::Rank& rank, const RowRange& rows, MatrixView<Real> z);

  /// Merges a part of which this rank may have rows: afterwards the columns of the part's
  /// eigenvectors hold those that are wanted, from the first one on. `equation` and `roots`: on the
  /// device. What was put to the device for earlier merges of these rows has been copied.
  void run(const Part& part, const Deflation<Real>& found, const Equation& equation,
           const Root* roots, const MergedPlaces& places, const IndexRange& wanted);

  /// Without a merge: some columns of Z become the first ones.
  void keep(const IndexRange& wanted);

  /// Bytes of device memory that it takes.
  static std::int64_t bytes(std::int64_t n, std::int64_t rows,
                            const runtime::TridiagonalTuning& tuning);

 private:
  struct Merge;
  void update(const Merge& merge, const RowRange& chunk);
  /// Some of this rank's rows of Z.
  MatrixView<Real> z_rows(const RowRange& rows, const RowRange& columns) const {
    return z_.block(rows.begin - rows_.begin, columns.begin, rows.size(), columns.size());
  }

  mesh::Rank& rank_;
  RowRange rows_;
  MatrixView<Real> z_;
  const runtime::Kernels<Real>& kernels_;
  const runtime::TridiagonalKernels<Real>& tridiagonal_;
  std::int64_t chunk_;  // rows of Z that a product takes
  std::int64_t panel_;  // columns of U
  MatrixView<Real> weights_;
  UploadedList<std::int64_t> poles_of_rows_;
  UploadedList<std::int64_t> columns_;
  UploadedList<std::int64_t> places_;
  UploadedList<runtime::ColumnRotation<Real>> rotations_;
  MatrixView<Real> gathered_;  // columns of a chunk of Z
  MatrixView<Real> product_;   // of them with a panel of U
  MatrixView<Real> u_;
};

}  // namespace shardsolve::dense::eigh
