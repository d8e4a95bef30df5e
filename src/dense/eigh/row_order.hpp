/// Rows in the order in which they are eliminated.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>

namespace shardsolve::dense::eigh {

/// The elimination order of a layout in lists on the device, for kernels that take rows from other
/// places (BandKernels::permute_rows), and memory to move all rows of a matrix.
template <Scalar T>
class RowOrder {
 public:
  /// The lists are enqueued on the update queue.
  RowOrder(mesh::Rank& rank, const SlabLayout& layout);

  /// Elements of workspace beside two lists of n numbers, of the rank that needs most.
  static std::int64_t elements(const SlabLayout& layout);

  /// Positions of the rows with the numbers of a rank's columns from `first` on.
  const std::int64_t* positions(std::int64_t rank, LocalIndex first) const {
    return positions_ + layout_.global(rank, first).value();
  }
  /// The rows from a position on.
  const std::int64_t* rows(std::int64_t first) const { return rows_ + first; }

  /// Rows in the caller's order into elimination order, and back. Waits for the end,
  /// if there is something to move.
  void to_elimination_order(MatrixView<T> a) const { move(rows_, a); }
  void to_caller_order(MatrixView<T> a) const { move(positions_, a); }

 private:
  void move(const std::int64_t* from, MatrixView<T> a) const;

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  const std::int64_t* positions_ = nullptr;
  const std::int64_t* rows_ = nullptr;
  MatrixView<T> buffer_;
};

}  // namespace shardsolve::dense::eigh
