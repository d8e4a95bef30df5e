/// Sums of Krylov solves on the CPU: the part of a rank, leaf by leaf, and the sum of all parts.
///
/// All is inlined, as in dot_tree.hpp: a file that includes this is compiled by itself.
#pragma once

#include "runtime/host/dot_tree.hpp"
#include "runtime/host/leaf_sums.hpp"
#include "runtime/krylov/number.hpp"
#include "runtime/krylov/program.hpp"
#include "runtime/krylov/sum_layout.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::host::krylov_sums {

using krylov::Number;
using krylov::SumLayout;
using krylov::SumPart;

/// Rows that are taken at a time: these leaves, and those of a multiple of them.
constexpr int stretch_exponent = 3;
constexpr int stretch_leaves = 1 << stretch_exponent;
constexpr std::int64_t stretch_rows = stretch_leaves * dot_leaf;

/// The sums of one slot on this rank, or of slots that have the same vectors.
template <class Real, int width>
class SlotWriter {
 public:
  SHARDSOLVE_INLINE SlotWriter(const SumLayout& layout, const SumPart& shape, Real* part)
      : shape_(shape),
        part_{part},
        leaves_(layout.leaves()),
        block_leaves_(layout.block_leaves),
        exponent_(SumLayout::exponent_of(layout.block_leaves)) {}

  /// Writes the same to one more slot, if there is room for that.
  SHARDSOLVE_INLINE bool add_slot(Real* part) {
    if (slots_ == max_slots) {
      return false;
    }
    part_[slots_++] = part;
    return true;
  }

  /// Rows from `row` to `end` of the whole vector, in one stretch.
  SHARDSOLVE_INLINE void take(const Real* x, const Real* y, std::int64_t row, std::int64_t end) {
    if (end - row == stretch_rows && shape_.has_block(block_of(row)) &&
        shape_.has_block(block_of(end - 1))) {
      take_stretch(x, y, row / dot_leaf);
      return;
    }
    for (std::int64_t at = row; at < end;) {
      const std::int64_t count = std::min(dot_leaf - at % dot_leaf, end - at);
      take_leaf(x + width * (at - row), y + width * (at - row), at, count);
      at += count;
    }
  }

 private:
  using Sum = DotSum<Real, width>;

  SHARDSOLVE_INLINE std::int64_t block_of(std::int64_t row) const {
    return row / dot_leaf >> exponent_;
  }
  /// Rows that are in one leaf.
  SHARDSOLVE_INLINE void take_leaf(const Real* x, const Real* y, std::int64_t row,
                                   std::int64_t count) {
    const std::int64_t leaf = row / dot_leaf;
    if (!shape_.has_leaf(leaf)) {
      const std::int64_t at = shape_.at_row(row);
      for (int slot = 0; slot < slots_; ++slot) {
        std::copy_n(x, width * count, part_[slot] + width * at);
        std::copy_n(y, width * count, part_[slot] + width * (at + shape_.loose_rows()));
      }
      return;
    }
    const Sum sum = dot::dot_leaf_sum<Real, width>(x, y, count);
    if (!shape_.has_block(leaf >> exponent_)) {
      store(sum, shape_.at_leaf(leaf, block_leaves_));
      return;
    }
    push(sum, leaf, 0);
  }
  /// Whole leaves in whole blocks.
  SHARDSOLVE_INLINE void take_stretch(const Real* x, const Real* y, std::int64_t leaf) {
    std::array<Sum, stretch_leaves> sum;
    leaf_sums(x, y, stretch_leaves, sum.data());
    int step = 1;
    for (; step < stretch_leaves && step < block_leaves_; step *= 2) {
      for (int at = 0; at < stretch_leaves; at += 2 * step) {
        sum[at].add(sum[at + step]);
      }
    }
    if (step < stretch_leaves || exponent_ == stretch_exponent) {
      for (int at = 0; at < stretch_leaves; at += step) {
        store(sum[at], shape_.at_block((leaf + at) >> exponent_));
      }
    } else {
      push(sum[0], leaf, stretch_exponent);
    }
  }
  /// The sum of 2^exponent leaves from `leaf` on, of a whole block.
  SHARDSOLVE_INLINE void push(const Sum& sum, std::int64_t leaf, int exponent) {
    if ((leaf & (block_leaves_ - 1)) == 0) {
      tree_.clear();
    }
    tree_.push_subtree(sum, exponent);
    const std::int64_t next = leaf + (std::int64_t{1} << exponent);
    if ((next & (block_leaves_ - 1)) == 0 || next >= leaves_) {
      store(tree_.total(), shape_.at_block(leaf >> exponent_));
    }
  }
  SHARDSOLVE_INLINE void store(const Sum& sum, std::int64_t at) {
    for (int slot = 0; slot < slots_; ++slot) {
      for (int part = 0; part < width; ++part) {
        part_[slot][width * at + part] = sum.part[part];
      }
    }
  }

  static constexpr int max_slots = 4;
  SumPart shape_;
  std::array<Real*, max_slots> part_;
  int slots_ = 1;
  std::int64_t leaves_;
  std::int64_t block_leaves_;
  int exponent_;
  dot::DotTree<Real, width> tree_;
};

/// The parts of all ranks, by row.
template <class Real, int width>
struct Parts {
  const SumLayout& layout;
  const Real* parts;
  const std::int64_t* offsets;
  int slot;

  SHARDSOLVE_INLINE const Real* of(std::int64_t rank, const SumPart& shape, std::int64_t at) const {
    return parts + width * (offsets[rank] + slot * shape.length() + at);
  }
  SHARDSOLVE_INLINE DotSum<Real, width> load(const Real* from) const {
    DotSum<Real, width> sum{};
    for (int part = 0; part < width; ++part) {
      sum.part[part] = from[part];
    }
    return sum;
  }
};

/// A leaf whose rows lie on several ranks from `rank` on, of which it leaves the last.
template <class Real, int width>
SHARDSOLVE_INLINE DotSum<Real, width> shared_leaf(const Parts<Real, width>& parts,
                                                  std::int64_t leaf, std::int64_t& rank) {
  std::array<Real, static_cast<std::size_t>(width * dot_leaf)> x{};
  std::array<Real, static_cast<std::size_t>(width * dot_leaf)> y{};
  const std::int64_t end = std::min((leaf + 1) * dot_leaf, parts.layout.n);
  for (std::int64_t row = leaf * dot_leaf; row < end;) {
    while (parts.layout.boundaries[rank + 1] <= row) {
      ++rank;
    }
    const SumPart shape = parts.layout.part(rank);
    const std::int64_t count = std::min(shape.end, end) - row;
    const std::int64_t slot = row - leaf * dot_leaf;
    const Real* const from = parts.of(rank, shape, shape.at_row(row));
    std::copy_n(from, width * count, x.data() + width * slot);
    std::copy_n(from + width * shape.loose_rows(), width * count, y.data() + width * slot);
    row += count;
  }
  return dot::dot_leaf_sum<Real, width>(x.data(), y.data(), end - leaf * dot_leaf);
}

template <class Real, int width>
SHARDSOLVE_INLINE Number sum_of_parts(const Parts<Real, width>& parts) {
  const SumLayout& layout = parts.layout;
  dot::DotTree<Real, width> tree;
  std::int64_t rank = 0;
  SumPart shape = layout.part(0);
  const auto advance = [&](std::int64_t row) {
    if (layout.boundaries[rank + 1] <= row || shape.begin == shape.end) {
      while (layout.boundaries[rank + 1] <= row) {
        ++rank;
      }
      shape = layout.part(rank);
    }
  };
  for (std::int64_t block = 0; block < layout.blocks(); ++block) {
    advance(block * layout.block_rows());
    if (shape.has_block(block)) {
      tree.push(parts.load(parts.of(rank, shape, shape.at_block(block))));
      continue;
    }
    dot::DotTree<Real, width> below;
    const std::int64_t end = std::min((block + 1) * layout.block_leaves, layout.leaves());
    for (std::int64_t leaf = block * layout.block_leaves; leaf < end; ++leaf) {
      advance(leaf * dot_leaf);
      if (shape.has_leaf(leaf)) {
        below.push(parts.load(parts.of(rank, shape, shape.at_leaf(leaf, layout.block_leaves))));
      } else {
        below.push(shared_leaf(parts, leaf, rank));
        shape = layout.part(rank);
      }
    }
    tree.push(below.total());
  }
  const DotSum<Real, width> total = tree.total();
  return {static_cast<double>(total.part[0]),
          width == 2 ? static_cast<double>(total.part[1]) : 0.0};
}

/// `table`: a SumTable.
template <class Real, int width, class Table>
SHARDSOLVE_INLINE void finish_sums(const Table& table, std::int64_t used, Number* sums) {
  for (int slot = 0; slot < used; ++slot) {
    const Parts<Real, width> parts{table.layout, reinterpret_cast<const Real*>(table.parts),
                                   table.offsets, slot};
    sums[slot] = sum_of_parts(parts);
  }
}

}  // namespace shardsolve::runtime::host::krylov_sums
