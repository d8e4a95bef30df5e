/// Who owns which columns of a matrix, and the order in which they are eliminated.
#pragma once

#include <shardsolve/export.hpp>
#include <shardsolve/index.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve {

namespace detail {
[[noreturn]] SHARDSOLVE_EXPORT void throw_bad_rank(std::int64_t rank, std::int64_t ranks);
}  // namespace detail

/// One run of consecutive rows inside one rank's segment.
struct RowRun {
  std::int64_t rank = 0;    ///< whose segment the rows lie in
  GlobalRange rows;         ///< the rows, in the caller's order
  std::int64_t packed = 0;  ///< place of the first one when the runs are stored one after another

  friend bool operator==(const RowRun&, const RowRun&) = default;
};

/// An n x n matrix cut into slabs of whole columns, one a rank, and the interleaved order in which
/// their blocks of `tile` columns are eliminated: first block 0 of rank 0, 1, 2, ..., then block 1
/// of each, and so on; a rank that has run out of blocks is skipped. That is the Cholesky order of
/// P A P^T for a known permutation P, with cyclic (balanced) ownership and no data moved.
///
/// The rows are cut at the same places: a rank's segment is the rows with the indices of its
/// columns. Pure functions of (boundaries, tile); no devices involved. Ranks and steps that are not
/// there throw Error(invalid_argument).
class SHARDSOLVE_EXPORT SlabLayout {
 public:
  /// Largest n, and most right-hand sides: 64 bits can then count all bytes of a call.
  static constexpr std::int64_t largest_size = std::int64_t{1} << 27;

  /// Slabs that differ by at most one column, the wider ones first.
  /// Throws Error(invalid_argument) if n < 0, n > largest_size, ranks < 1 or tile < 1.
  static SlabLayout even(std::int64_t n, std::int64_t ranks, std::int64_t tile);

  /// Rank r owns the columns [boundaries[r], boundaries[r + 1]); boundaries start at 0, never fall
  /// and end at n. Throws Error(invalid_argument) otherwise, or if n > largest_size or tile < 1.
  SlabLayout(std::vector<std::int64_t> boundaries, std::int64_t tile);

  std::int64_t size() const { return boundaries_.back(); }
  std::int64_t ranks() const { return static_cast<std::int64_t>(boundaries_.size()) - 1; }
  /// Columns of a block; never more than the widest slab has.
  std::int64_t tile() const { return tile_; }
  const std::vector<std::int64_t>& boundaries() const { return boundaries_; }

  /// The columns of one rank, and the rows of its segment.
  GlobalRange segment(std::int64_t rank) const;
  std::int64_t width(std::int64_t rank) const { return segment(rank).size(); }
  /// Columns of the widest slab.
  std::int64_t max_width() const;
  std::int64_t owner(GlobalIndex column) const;
  GlobalIndex global(std::int64_t rank, LocalIndex column) const {
    return segment(rank).begin + column.value();
  }

  /// Number of steps: blocks of all ranks together.
  std::int64_t steps() const { return static_cast<std::int64_t>(blocks_.size()); }
  std::int64_t owner(Step step) const { return block(step).rank; }
  /// Columns of the owner's slab that this step eliminates.
  LocalRange columns(Step step) const;
  /// The same as rows and columns of the whole matrix.
  GlobalRange rows(Step step) const;
  /// The first step at or after `step` that `rank` owns; Step(steps()) if there is none.
  Step next_owned(std::int64_t rank, Step step) const;

  /// Columns of `rank` eliminated before this step; Step(steps()) asks for all.
  LocalIndex eliminated(std::int64_t rank, Step step) const;
  /// Rows eliminated before this step, over all ranks.
  std::int64_t eliminated(Step step) const;
  /// Rows not eliminated before this step, as one run a rank (possibly empty), packed rank by rank.
  std::vector<RowRun> rows_from(Step step) const;
  /// Rows eliminated before this step, likewise.
  std::vector<RowRun> rows_before(Step step) const;

  /// Place of a row in the elimination order, and back: the permutation P.
  Position position(GlobalIndex row) const;
  GlobalIndex row_at(Position position) const;

  friend bool operator==(const SlabLayout& a, const SlabLayout& b) {
    return a.boundaries_ == b.boundaries_ && a.tile_ == b.tile_;
  }

 private:
  struct Block {
    std::int64_t rank;
    std::int64_t index;        // block number inside the rank's slab
    std::int64_t rows_before;  // rows of all ranks eliminated before it
  };
  const Block& block(Step step) const;

  std::vector<std::int64_t> boundaries_;
  std::int64_t tile_;
  std::vector<Block> blocks_;  // one a step
};

}  // namespace shardsolve
