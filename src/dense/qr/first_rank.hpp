/// To the first rank and back. R and what is found with it are made there alone, and decisions are
/// sent: so all ranks have the same bits, also where their machines differ.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::qr {

/// A matrix in double precision that is the sum of what the ranks have of it.
template <Scalar W>
class Sums {
 public:
  /// Of `rows` rows and up to `columns` columns.
  Sums(mesh::Rank& rank, std::int64_t rows, std::int64_t columns);

  /// This rank's share, without gaps: to be written on the update queue.
  MatrixView<W> share(std::int64_t columns) const { return memory_.columns_from(0, columns); }
  /// On the first rank share(columns) becomes the sum of all shares, added in rank order; elsewhere
  /// it is of no use then. Enqueued; ready for what follows on the update queue.
  void to_first(std::int64_t columns);

  /// Bytes of workspace.
  static std::int64_t bytes(std::int64_t ranks, std::int64_t rows, std::int64_t columns);

 private:
  mesh::Rank& rank_;
  MatrixView<W> memory_;
  MatrixView<W> shares_;  // what the ranks have of this one's columns, one after the other
  runtime::Event& ready_;
  runtime::Event& arrived_;
};

/// The conjugate transpose of a matrix of which each rank has the rows of `layout`: on the first
/// rank, in memory of this call. Waits.
template <class V>
MatrixView<V> adjoint_on_first(mesh::Rank& rank, const SlabLayout& layout,
                               MatrixView<const V> rows);

/// What the first rank has in `data`, without gaps, to all; it has written that on its update
/// queue. Waits: afterwards any queue may read it.
template <class V>
void from_first(mesh::Rank& rank, MatrixView<V> data);

/// Likewise a few numbers of the host, returned on all ranks.
std::vector<std::int64_t> words_from_first(mesh::Rank& rank, std::vector<std::int64_t> words);
std::vector<double> numbers_from_first(mesh::Rank& rank, const std::vector<double>& numbers);

}  // namespace shardsolve::dense::qr
