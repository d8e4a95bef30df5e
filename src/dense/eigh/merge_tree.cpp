#include "dense/eigh/merge_tree.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace shardsolve::dense::eigh {
namespace {

std::int64_t middle_of(const std::vector<std::int64_t>& bounds, const Part& part) {
  const std::int64_t half = part.rows.begin + part.rows.size() / 2;
  if (!part.is_shared()) {
    return half;
  }
  std::int64_t nearest = part.rows.begin;
  for (const std::int64_t bound : bounds) {
    const bool inside = bound > part.rows.begin && bound < part.rows.end;
    if (inside &&
        (nearest == part.rows.begin || std::abs(bound - half) < std::abs(nearest - half))) {
      nearest = bound;
    }
  }
  return nearest;
}

void add(std::vector<Part>& parts, const std::vector<std::int64_t>& bounds, RowRange rows,
         std::int64_t leaf) {
  const std::int64_t owner = owner_of(bounds, rows.begin);
  Part part{.rows = rows};
  if (owner == owner_of(bounds, rows.end - 1)) {
    part.owner = owner;
  }
  if (rows.size() > leaf) {
    part.is_leaf = false;
    part.middle = middle_of(bounds, part);
    add(parts, bounds, part.first_half(), leaf);
    add(parts, bounds, part.second_half(), leaf);
  }
  parts.push_back(part);
}

}  // namespace

std::int64_t owner_of(const std::vector<std::int64_t>& bounds, std::int64_t row) {
  return std::upper_bound(bounds.begin(), bounds.end(), row) - bounds.begin() - 1;
}

std::vector<Part> merge_tree(const std::vector<std::int64_t>& bounds, std::int64_t leaf) {
  std::vector<Part> parts;
  if (bounds.back() > 0) {
    add(parts, bounds, {0, bounds.back()}, leaf);
  }
  return parts;
}

std::vector<std::vector<Part>> own_merges(const std::vector<Part>& tree, std::int64_t owner) {
  std::vector<std::vector<Part>> levels;
  std::vector<std::size_t> heights;  // of parts that wait for what they go into
  for (const Part& part : tree) {
    if (part.is_leaf) {
      heights.push_back(0);
      continue;
    }
    const std::size_t second = heights.back();
    heights.pop_back();
    const std::size_t below = std::max(heights.back(), second);
    heights.back() = below + 1;
    if (part.owner == owner) {
      levels.resize(std::max(levels.size(), below + 1));
      levels[below].push_back(part);
    }
  }
  return levels;
}

}  // namespace shardsolve::dense::eigh
