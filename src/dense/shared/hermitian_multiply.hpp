/// Products with A after the factor has replaced half of it.
#pragma once

#include "layout/staircase.hpp"
#include "mesh/rank.hpp"
#include "runtime/hermitian_kernels.hpp"
#include "runtime/upper_part.hpp"

#include <shardsolve/slab_layout.hpp>

#include <cstddef>
#include <optional>
#include <vector>

namespace shardsolve::dense {

/// Y = A X - B, where A's entries above the diagonal (in elimination order) are in the slabs and
/// its diagonal is apart: what a factor keeps of A.
///
/// With one column all sums are made in twice the precision: rounding hides nothing of Y, however
/// small it is beside A X. With several, products of at most `tile` terms are made by the BLAS and
/// added in twice the precision: a few units in the last place of |A| |X| may be rounding.
template <Scalar T>
class HermitianMultiply {
 public:
  /// For X of up to `columns` columns. `diagonal`: layout.width(rank) values on the host.
  HermitianMultiply(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                    const RealOf<T>* diagonal, std::int64_t columns);

  /// y = A x - b. `x`, `b`, `y`: this rank's rows. Enqueued on the update queue, where y is ready
  /// for what follows.
  void residual(MatrixView<const T> x, MatrixView<const T> b, MatrixView<T> y);
  /// y = A x.
  void run(MatrixView<const T> x, MatrixView<T> y);

 private:
  /// Rows of one segment of X, or of the sums, without gaps.
  MatrixView<T> part(MatrixView<T> memory, std::int64_t segment, std::int64_t columns) const;
  /// total_ += A x.
  void add_product(MatrixView<const T> x);
  void multiply(std::int64_t columns);
  void multiply(const layout::Piece& piece, std::int64_t columns);
  /// Makes upper_, for the kernel that multiplies the whole slab at once.
  void describe_upper_part();

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<const T> slab_;
  const RealOf<T>* diagonal_;
  const runtime::Kernels<T>& kernels_;
  const runtime::HermitianKernels<T>& hermitian_;
  MatrixView<T> x_;         // all of X
  MatrixView<T> sums_;      // this rank's share of all of A X, each part twofold
  MatrixView<T> incoming_;  // the shares of all ranks of this rank's rows of A X
  MatrixView<T> total_;     // this rank's rows of Y, twofold
  MatrixView<T> tile_;
  MatrixView<T> product_;                                  // of a tile and some rows of X
  std::optional<runtime::UpperPart<T, RealOf<T>>> upper_;  // if the kernel is used
  MatrixView<std::byte> scratch_;                          // of the kernel
  runtime::Event& ready_;
  runtime::Event& arrived_;
};

}  // namespace shardsolve::dense
