#include "programs/apart.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace shardsolve::programs {
namespace {

/// Whether [0, count) has a number of [begin, begin + others).
bool meet(std::int64_t count, std::int64_t begin, std::int64_t others) {
  return begin < count && begin + others > 0;
}

}  // namespace

bool Apart::overlap(const Piece& first, const Piece& second) {
  if (second.begin < first.begin) {
    return overlap(second, first);
  }
  const auto distance = static_cast<std::int64_t>(second.begin - first.begin);
  const std::int64_t stride = first.columns > 1 ? first.stride : second.stride;
  const bool is_grid = (first.columns == 1 || first.stride == stride) &&
                       (second.columns == 1 || second.stride == stride) &&
                       std::max(first.rows, second.rows) <= stride;
  if (!is_grid || first.columns + second.columns == 2) {
    return distance < (first.columns - 1) * first.stride + first.rows;
  }
  // Rows of one may lie between those of the other: both may be blocks of a larger matrix.
  const std::int64_t row = distance % stride;
  const std::int64_t column = distance / stride;
  return (row < first.rows && meet(first.columns, column, second.columns)) ||
         (row + second.rows > stride && meet(first.columns, column + 1, second.columns));
}

void Apart::require(const mesh::Rank& rank) const {
  if (!rank.leads()) {
    return;
  }
  for (std::size_t i = 0; i < given_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Given& one = given_[j];
      const Given& other = given_[i];
      if (!one.is_written && !other.is_written) {
        continue;
      }
      for (const Piece& piece : one.pieces) {
        if (std::any_of(other.pieces.begin(), other.pieces.end(),
                        [&](const Piece& its) { return overlap(piece, its); })) {
          throw Error(ErrorKind::invalid_argument,
                      fmt::format("{} and {} share memory: give {} memory of its own", one.name,
                                  other.name, other.is_written ? other.name : one.name));
        }
      }
    }
  }
}

}  // namespace shardsolve::programs
