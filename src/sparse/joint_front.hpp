/// A front that all ranks factor together: which of its columns is where.
#pragma once

#include "sparse/workers.hpp"

#include <shardsolve/index.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::sparse {

/// The front's columns in the order of their elimination, dealt to the ranks tile by tile: slabs,
/// so that the distributed dense factorisation takes the own columns and leaves the Schur
/// complement in the others. Columns of the identity behind the own ones end these with a tile.
class JointFront {
 public:
  JointFront(std::int64_t own, std::int64_t outer, std::int64_t ranks, const JointFronts& how);

  const SlabLayout& layout() const { return layout_; }
  /// The own columns are those of the steps before this one.
  Step end() const { return Step(padded_ / tile_); }
  std::int64_t own() const { return own_; }
  std::int64_t outer() const { return outer_; }
  /// Columns of the identity.
  std::int64_t pads() const { return padded_ - own_; }

  /// Who has a column of the front, own ones first; a pad is column own() + outer() + its number.
  std::int64_t rank(std::int64_t column) const { return position(column) / tile_ % ranks(); }
  /// Its place in the slab.
  std::int64_t place(std::int64_t column) const {
    const std::int64_t at = position(column);
    return at / tile_ / ranks() * tile_ + at % tile_;
  }
  /// The row of that number, in every slab.
  std::int64_t row(std::int64_t column) const {
    return layout_.boundaries()[static_cast<std::size_t>(rank(column))] + place(column);
  }
  /// Columns of the slab that are own ones, or pads: they come first.
  std::int64_t own_width(std::int64_t rank) const {
    return layout_.eliminated(rank, end()).value();
  }
  /// Of each outer column, its row as SlabLayout::rows_from(end()) has them packed.
  std::vector<std::int64_t> packed_rows() const;

 private:
  std::int64_t ranks() const { return layout_.ranks(); }
  std::int64_t position(std::int64_t column) const {
    if (column < own_) {
      return column;
    }
    return column < own_ + outer_ ? column + pads() : column - outer_;
  }

  std::int64_t own_;
  std::int64_t outer_;
  std::int64_t tile_;
  std::int64_t padded_;
  SlabLayout layout_;
};

/// Where a rest is, the outer columns of a front: on one rank, or in slabs.
struct RestPlace {
  const JointFront* slabs = nullptr;  ///< or else:
  std::int64_t only = 0;              ///< the rank

  std::int64_t rank(std::int64_t column) const {
    return slabs != nullptr ? slabs->rank(slabs->own() + column) : only;
  }
};

/// Columns of a front's rest that rank `from` has and whose places in the parent, which
/// `parent_columns` gives, rank `to` has; ascending. They travel from the diagonal down.
std::vector<std::int64_t> columns_between(const RestPlace& rest, const JointFront& parent,
                                          const std::vector<std::int64_t>& parent_columns,
                                          std::int64_t from, std::int64_t to);
/// Numbers in them.
std::int64_t numbers_of(const std::vector<std::int64_t>& columns, std::int64_t outer);

}  // namespace shardsolve::sparse
