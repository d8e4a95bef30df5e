/// The columns of a matrix dealt to the ranks in blocks, and the way there and back from slabs of
/// rows.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <functional>

namespace shardsolve::dense::qr {

/// Block b of `tile` columns is on rank b mod ranks: the order in which this layout eliminates is
/// that of the columns.
SlabLayout deal_columns(std::int64_t columns, std::int64_t ranks, std::int64_t tile);

/// The width of blocks of a matrix of so many columns.
std::int64_t tile_of_columns(std::int64_t columns, std::int64_t ranks);

/// The ranks' next blocks of columns cross them at a time.
template <Scalar T>
class Dealer {
 public:
  /// `rows`: how the matrix is cut by rows; `columns`: by deal_columns().
  Dealer(mesh::Rank& rank, const SlabLayout& rows, const SlabLayout& columns);

  /// From the rows of all ranks to this one's columns, column j times 2^exponents[j], which lie on
  /// the device. Waits.
  void to_columns(MatrixView<const T> rows, const std::int64_t* exponents, MatrixView<T> slab);

  /// Back. `block` enqueues on the update queue what makes the columns of one of this rank's steps,
  /// and returns them; they may be overwritten by the next one. Waits.
  void to_rows(const std::function<MatrixView<const T>(Step)>& block, MatrixView<T> rows);

  /// Elements of workspace.
  static std::int64_t elements(const SlabLayout& rows, const SlabLayout& columns);

 private:
  /// The step in which a rank's block is, of those that begin with `first`; there may be none.
  bool has_step(Step first, std::int64_t rank) const;
  std::int64_t width(Step step) const { return columns_.columns(step).size(); }
  /// Of this rank.
  std::int64_t rows() const { return rows_.width(rank_.index()); }
  /// Columns that all ranks have of one step of this rank's, by the rank that has the rows.
  MatrixView<T> by_rows(MatrixView<T> memory, std::int64_t rank, std::int64_t columns) const;
  /// This rank's rows of the columns of another one's step.
  MatrixView<T> by_columns(MatrixView<T> memory, Step first, std::int64_t rank) const;
  void exchange(const std::function<MatrixView<T>(std::int64_t)>& sent,
                const std::function<MatrixView<T>(std::int64_t)>& received);

  mesh::Rank& rank_;
  const SlabLayout& rows_;
  const SlabLayout& columns_;
  MatrixView<T> outgoing_;
  MatrixView<T> incoming_;
};

}  // namespace shardsolve::dense::qr
