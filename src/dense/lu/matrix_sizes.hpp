/// How large a matrix on slabs is: sums of its rows, and its largest entry.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/matrix_view.hpp>
#include <shardsolve/scaled.hpp>
#include <shardsolve/slab_layout.hpp>

namespace shardsolve::dense::lu {

struct Sizes {
  Scaled inf_norm;       ///< ||A||_inf, the largest sum of the moduli in a row
  double largest = 0.0;  ///< max |a_ij|
};

/// Of a matrix whose ||A||_1 is known, in one pass over it; the same on all ranks.
template <Scalar T>
class MatrixSizes {
 public:
  /// Enqueues the pass over this rank's columns.
  MatrixSizes(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab, Scaled one_norm,
              runtime::Queue& queue);
  /// Waits for it.
  Sizes get();

 private:
  mesh::Rank& rank_;
  const SlabLayout& layout_;
  int scale_;
  MatrixView<double> sums_;
  MatrixView<double> shares_;  // of this rank's rows
  runtime::Event& ready_;
  runtime::Queue& queue_;
  const double* largest_;  // of each row, on the host when the queue has made the copy
};

}  // namespace shardsolve::dense::lu
