/// Products with A after the factor has replaced half of it.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/slab_layout.hpp>

#include <cstddef>
#include <vector>

namespace shardsolve::dense {

/// Y = A X, where A's entries above the diagonal (in elimination order) are in the slabs and its
/// diagonal is apart: what a factor keeps of A.
template <Scalar T>
class HermitianMultiply {
 public:
  /// For X of up to `columns` columns. `diagonal`: layout.width(rank) values on the host.
  HermitianMultiply(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                    const RealOf<T>* diagonal, std::int64_t columns);

  /// `x`, `y`: this rank's rows. Enqueued behind what the update queue holds; y is ready there.
  void run(MatrixView<const T> x, MatrixView<T> y);

 private:
  /// Rows of one segment of X, or of the sums, without gaps.
  MatrixView<T> part(MatrixView<T> memory, std::int64_t segment, std::int64_t columns) const;
  void multiply(std::int64_t columns);
  /// What a kernel that does all of it at once has to know.
  void describe_upper_part();

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<const T> slab_;
  const RealOf<T>* diagonal_;
  const runtime::Kernels<T>& kernels_;
  MatrixView<T> x_;         // all of X
  MatrixView<T> sums_;      // this rank's share of all of Y
  MatrixView<T> incoming_;  // everybody's share of this rank's rows of Y
  MatrixView<T> tile_;
  runtime::UpperPart<T, RealOf<T>> upper_;  // of no ranks: the kernel is not to be used
  MatrixView<std::byte> scratch_;           // of the kernel
  runtime::Event& ready_;
  runtime::Event& arrived_;
};

}  // namespace shardsolve::dense
