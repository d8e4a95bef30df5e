/// The largest sum of a row of a matrix on slabs.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/matrix_view.hpp>
#include <shardsolve/scaled.hpp>
#include <shardsolve/slab_layout.hpp>

namespace shardsolve::dense::lu {

/// ||A||_inf, where ||A||_1 is known: sums of the moduli in each row, over all ranks; the same on
/// all of them.
template <Scalar T>
class InfNorm {
 public:
  /// Enqueues the sums over this rank's columns.
  InfNorm(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab, Scaled one_norm,
          runtime::Queue& queue);
  /// Waits for them.
  Scaled get();

 private:
  mesh::Rank& rank_;
  const SlabLayout& layout_;
  int scale_;
  MatrixView<double> sums_;
  MatrixView<double> shares_;  // of this rank's rows
  runtime::Event& ready_;
};

}  // namespace shardsolve::dense::lu
