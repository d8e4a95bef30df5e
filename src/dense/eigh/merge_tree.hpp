/// How T is taken apart, and in which order it is put together.
#pragma once

#include "dense/eigh/tridiagonal_problem.hpp"

#include <cstdint>
#include <vector>

namespace shardsolve::dense::eigh {

/// A part of T: a leaf, or two parts that are merged.
struct Part {
  static constexpr std::int64_t all_ranks = -1;

  RowRange rows;
  std::int64_t middle = 0;  ///< first row of the second half; not of a leaf
  bool is_leaf = true;
  std::int64_t owner = all_ranks;  ///< the rank that has all of its rows, if one has

  bool is_shared() const { return owner == all_ranks; }
  RowRange first_half() const { return {rows.begin, middle}; }
  RowRange second_half() const { return {middle, rows.end}; }
};

/// The parts of T, each behind those that it is merged from; the last one is T. A part of more than
/// `leaf` rows is cut where ranks meet, as close to its middle as they do, and in its middle if one
/// rank has all of it. `bounds`: rank r has rows bounds[r] .. bounds[r + 1] - 1. None without rows.
std::vector<Part> merge_tree(const std::vector<std::int64_t>& bounds, std::int64_t leaf);

/// The merges of a rank alone, a level at a time: what those of a level are merged from is in
/// levels before. Those of one level have no rows in common, and are in the order of their rows.
std::vector<std::vector<Part>> own_merges(const std::vector<Part>& tree, std::int64_t owner);

/// The rank that has a row.
std::int64_t owner_of(const std::vector<std::int64_t>& bounds, std::int64_t row);

}  // namespace shardsolve::dense::eigh
