#include "layout/staircase.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace shardsolve::layout {
namespace {

/// One rank's slab in blocks.
class Slab {
 public:
  Slab(const SlabLayout& layout, std::int64_t rank) : layout_(layout), rank_(rank) {}

  const SlabLayout& layout() const { return layout_; }
  std::int64_t rank() const { return rank_; }
  std::int64_t blocks() const {
    return (layout_.width(rank_) + layout_.tile() - 1) / layout_.tile();
  }

  LocalRange columns(std::int64_t first, std::int64_t last) const {
    const auto clip = [&](std::int64_t block) {
      return LocalIndex(std::min(block * layout_.tile(), layout_.width(rank_)));
    };
    return {clip(first), clip(last)};
  }

  /// First row of a segment that is not eliminated before `block`; past the last block, its end.
  GlobalIndex from(std::int64_t segment, std::int64_t block) const {
    if (block >= blocks()) {
      return layout_.segment(segment).end;
    }
    const std::int64_t eliminated =
        std::min(layout_.width(segment), (block + (segment < rank_ ? 1 : 0)) * layout_.tile());
    return layout_.segment(segment).begin + eliminated;
  }

  /// Rows with the indices of columns.
  GlobalRange diagonal_rows(LocalRange columns) const {
    return {layout_.global(rank_, columns.begin), layout_.global(rank_, columns.end)};
  }

 private:
  const SlabLayout& layout_;
  std::int64_t rank_;
};

/// The number strictly between two that the highest power of two divides: cut there, most pieces of
/// a level are of one size.
std::int64_t roundest_between(std::int64_t first, std::int64_t last) {
  std::int64_t found = first + 1;
  for (std::int64_t power = 2; (first / power + 1) * power < last; power *= 2) {
    found = (first / power + 1) * power;
  }
  return found;
}

void add_rectangle(std::vector<Piece>& pieces, std::int64_t segment, GlobalRange rows,
                   LocalRange columns) {
  if (rows.begin < rows.end && !columns.empty()) {
    pieces.push_back({segment, rows, columns, false});
  }
}

/// A square on the diagonal.
void cut_square(const Slab& slab, LocalRange columns, std::int64_t finest,
                std::vector<Piece>& pieces) {
  const GlobalRange rows = slab.diagonal_rows(columns);
  if (columns.size() <= finest) {
    pieces.push_back({slab.rank(), rows, columns, true});
    return;
  }
  const std::int64_t half = finest * roundest_between(0, (columns.size() + finest - 1) / finest);
  const LocalRange left{columns.begin, columns.begin + half};
  add_rectangle(pieces, slab.rank(), {rows.begin + half, rows.end}, left);
  cut_square(slab, left, finest, pieces);
  cut_square(slab, {left.end, columns.end}, finest, pieces);
}

/// Blocks [first, last), rows before those of block `end`.
void cut_lower(const Slab& slab, std::int64_t first, std::int64_t last, std::int64_t end,
               std::int64_t finest, std::vector<Piece>& pieces) {
  if (last - first == 1) {
    const GlobalRange tile = slab.diagonal_rows(slab.columns(first, last));
    cut_square(slab, slab.columns(first, last), finest, pieces);
    for (std::int64_t segment = 0; segment < slab.layout().ranks(); ++segment) {
      const GlobalIndex begin = segment == slab.rank() ? tile.end : slab.from(segment, first);
      add_rectangle(pieces, segment, {begin, slab.from(segment, end)}, slab.columns(first, last));
    }
    return;
  }
  const std::int64_t middle = roundest_between(first, last);
  for (std::int64_t segment = 0; segment < slab.layout().ranks(); ++segment) {
    add_rectangle(pieces, segment, {slab.from(segment, middle), slab.from(segment, end)},
                  slab.columns(first, middle));
  }
  cut_lower(slab, first, middle, middle, finest, pieces);
  cut_lower(slab, middle, last, end, finest, pieces);
}

/// Blocks [first, last), rows from those of block `begin` (all rows if it is -1).
void cut_upper(const Slab& slab, std::int64_t first, std::int64_t last, std::int64_t begin,
               std::vector<Piece>& pieces) {
  const auto first_row = [&](std::int64_t segment) {
    return begin < 0 ? slab.layout().segment(segment).begin : slab.from(segment, begin);
  };
  if (last - first == 1) {
    for (std::int64_t segment = 0; segment < slab.layout().ranks(); ++segment) {
      add_rectangle(pieces, segment, {first_row(segment), slab.from(segment, first)},
                    slab.columns(first, last));
    }
    const LocalRange tile = slab.columns(first, last);
    pieces.push_back({slab.rank(), slab.diagonal_rows(tile), tile, true});
    return;
  }
  const std::int64_t middle = roundest_between(first, last);
  for (std::int64_t segment = 0; segment < slab.layout().ranks(); ++segment) {
    add_rectangle(pieces, segment, {first_row(segment), slab.from(segment, middle)},
                  slab.columns(middle, last));
  }
  cut_upper(slab, first, middle, begin, pieces);
  cut_upper(slab, middle, last, middle, pieces);
}

}  // namespace

std::vector<Piece> lower_staircase(const SlabLayout& layout, std::int64_t rank, std::int64_t first,
                                   std::int64_t last, std::int64_t finest) {
  const Slab slab(layout, rank);
  std::vector<Piece> pieces;
  if (first < last) {
    cut_lower(slab, first, last, slab.blocks(), finest, pieces);
  }
  return pieces;
}

std::vector<Piece> lower_tile(const SlabLayout& layout, std::int64_t rank, std::int64_t block,
                              std::int64_t finest) {
  const Slab slab(layout, rank);
  std::vector<Piece> pieces;
  cut_square(slab, slab.columns(block, block + 1), finest, pieces);
  return pieces;
}

std::vector<Piece> upper_staircase(const SlabLayout& layout, std::int64_t rank, std::int64_t first,
                                   std::int64_t last) {
  const Slab slab(layout, rank);
  std::vector<Piece> pieces;
  if (first < last) {
    cut_upper(slab, first, last, -1, pieces);
  }
  return pieces;
}

std::vector<Batch> in_batches(std::vector<Piece> pieces) {
  const auto shape = [](const Piece& piece) {
    return std::tuple(piece.diagonal, piece.segment, piece.rows.size(), piece.columns.size());
  };
  // Those of a batch lie on one diagonal.
  const auto place = [&](const Piece& piece) {
    return std::tuple(shape(piece), piece.rows.begin.value() - piece.columns.begin.value(),
                      piece.columns.begin);
  };
  std::stable_sort(pieces.begin(), pieces.end(),
                   [&](const Piece& a, const Piece& b) { return place(a) < place(b); });
  std::vector<Batch> batches;
  for (const Piece& piece : pieces) {
    if (!batches.empty() && shape(batches.back().first) == shape(piece)) {
      Batch& batch = batches.back();
      const std::int64_t down = piece.rows.begin - batch.first.rows.begin;
      const std::int64_t right = piece.columns.begin - batch.first.columns.begin;
      if (down == right && (batch.count == 1 || right == batch.count * batch.distance)) {
        batch.distance = right / batch.count;
        ++batch.count;
        continue;
      }
    }
    batches.push_back({piece, 1, 0});
  }
  return batches;
}

}  // namespace shardsolve::layout
