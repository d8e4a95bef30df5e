#include "sparse/joint_front.hpp"

#include <algorithm>
#include <cstddef>

namespace shardsolve::sparse {
namespace joint {

std::int64_t pieces(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

/// As many tiles as `wanted` columns each would be, all alike.
std::int64_t tile_of(std::int64_t own, std::int64_t wanted, std::int64_t round) {
  if (own == 0) {
    return wanted;
  }
  return pieces(pieces(own, pieces(own, wanted)), round) * round;
}

SlabLayout dealt(std::int64_t columns, std::int64_t ranks, std::int64_t tile) {
  std::vector<std::int64_t> boundaries{0};
  const std::int64_t tiles = pieces(columns, tile);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    std::int64_t width = pieces(std::max<std::int64_t>(tiles - rank, 0), ranks) * tile;
    if (tiles > 0 && (tiles - 1) % ranks == rank) {
      width -= tiles * tile - columns;
    }
    boundaries.push_back(boundaries.back() + width);
  }
  return {std::move(boundaries), tile};
}

}  // namespace joint

JointFront::JointFront(std::int64_t own, std::int64_t outer, std::int64_t ranks,
                       const JointFronts& how)
    : own_(own),
      outer_(outer),
      tile_(joint::tile_of(own, how.tile, how.round)),
      padded_(joint::pieces(own, tile_) * tile_),
      layout_(joint::dealt(padded_ + outer, ranks, tile_)) {}

std::vector<std::int64_t> JointFront::packed_rows() const {
  std::vector<std::int64_t> result;
  const std::vector<RowRun> runs = layout_.rows_from(end());
  for (std::int64_t column = own_; column < own_ + outer_; ++column) {
    const RowRun& run = runs[static_cast<std::size_t>(rank(column))];
    result.push_back(run.packed + (row(column) - run.rows.begin.value()));
  }
  return result;
}

std::vector<std::int64_t> columns_between(const RestPlace& rest, const JointFront& parent,
                                          const std::vector<std::int64_t>& parent_columns,
                                          std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> result;
  for (std::size_t column = 0; column < parent_columns.size(); ++column) {
    if (rest.rank(static_cast<std::int64_t>(column)) == from &&
        parent.rank(parent_columns[column]) == to) {
      result.push_back(static_cast<std::int64_t>(column));
    }
  }
  return result;
}

std::int64_t numbers_of(const std::vector<std::int64_t>& columns, std::int64_t outer) {
  std::int64_t sum = 0;
  for (const std::int64_t column : columns) {
    sum += outer - column;
  }
  return sum;
}

}  // namespace shardsolve::sparse
