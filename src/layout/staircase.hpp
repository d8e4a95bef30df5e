/// Which rectangles an update of a triangle touches, when the triangle lies in slabs.
#pragma once

#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::layout {

/// A rectangle of one rank's slab whose rows lie in one segment.
struct Piece {
  std::int64_t segment = 0;  ///< rank whose segment the rows lie in
  GlobalRange rows;
  LocalRange columns;     ///< of the slab
  bool diagonal = false;  ///< a square on the diagonal, of which one triangle belongs to the update

  friend bool operator==(const Piece&, const Piece&) = default;
};

/// The entries of blocks [first, last) of `rank`'s slab (block numbers within the slab) that come
/// on or below the diagonal in the elimination order: block b has the rows eliminated in its own
/// step or later. In each segment that is a staircase; it is cut recursively into few wide
/// rectangles, one diagonal tile a block, no entry twice. Empty pieces are left out. Diagonal tiles
/// of more than `finest` columns are cut likewise, down to squares of so many.
std::vector<Piece> lower_staircase(const SlabLayout& layout, std::int64_t rank, std::int64_t first,
                                   std::int64_t last,
                                   std::int64_t finest = SlabLayout::largest_size);

/// The diagonal tile of one of its blocks alone, cut like that.
std::vector<Piece> lower_tile(const SlabLayout& layout, std::int64_t rank, std::int64_t block,
                              std::int64_t finest);

/// Likewise the entries on or above the diagonal: rows eliminated in the block's own step or
/// before.
std::vector<Piece> upper_staircase(const SlabLayout& layout, std::int64_t rank, std::int64_t first,
                                   std::int64_t last);

/// Pieces of one shape, each `distance` rows further down and columns further right than the one
/// before.
struct Batch {
  Piece first;
  std::int64_t count = 1;
  std::int64_t distance = 0;
};

/// All of the pieces, few batches. Sorted by their places, not in the order given; those on the
/// diagonal come last.
std::vector<Batch> in_batches(std::vector<Piece> pieces);

}  // namespace shardsolve::layout
