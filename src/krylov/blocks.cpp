// Where to cut a matrix into blocks.

#include "core/each_dtype.hpp"
#include "sparse/csr_checks.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/krylov.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

namespace shardsolve::krylov {
namespace cutting {
namespace {

/// For each row, entries that join the rows before it with it and those behind.
template <Scalar T>
std::vector<std::int64_t> entries_across(const CsrMatrix<T>& a) {
  std::vector<std::int64_t> across(static_cast<std::size_t>(a.rows) + 1, 0);
  for (std::int64_t row = 0; row < a.rows; ++row) {
    for (auto k = static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(row)]);
         k < static_cast<std::size_t>(a.row_pointers[static_cast<std::size_t>(row) + 1]); ++k) {
      if (a.values[k] != T{0}) {
        // Across all cuts behind the lesser index up to the larger one.
        const auto [low, high] = std::minmax(row, a.column_indices[k]);
        ++across[static_cast<std::size_t>(low) + 1];
        if (static_cast<std::size_t>(high) + 1 < across.size()) {
          --across[static_cast<std::size_t>(high) + 1];
        }
      }
    }
  }
  for (std::size_t cut = 1; cut < across.size(); ++cut) {
    across[cut] += across[cut - 1];
  }
  return across;
}

}  // namespace
}  // namespace cutting

template <Scalar T>
std::vector<std::int64_t> blocks_of(const CsrMatrix<T>& a, std::int64_t count) {
  sparse::require_square_in_order(a, "blocks_of");
  if (count < 1 || count > a.rows) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} blocks of a matrix of {} rows were asked for; 1 to {} can be had",
                            count, a.rows, a.rows));
  }
  const std::vector<std::int64_t> across = cutting::entries_across(a);
  std::vector<std::int64_t> blocks{0};
  for (std::int64_t block = 1; block < count; ++block) {
    const std::int64_t even = a.rows * block / count;
    const std::int64_t reach = a.rows / (4 * count);
    std::int64_t best = even;
    for (std::int64_t distance = 1; distance <= reach; ++distance) {
      for (const std::int64_t cut : {even - distance, even + distance}) {
        if (across[static_cast<std::size_t>(cut)] < across[static_cast<std::size_t>(best)]) {
          best = cut;
        }
      }
    }
    blocks.push_back(best);
  }
  blocks.push_back(a.rows);
  return blocks;
}

#define SHARDSOLVE_INSTANTIATE(T) \
  template std::vector<std::int64_t> blocks_of(const CsrMatrix<T>&, std::int64_t);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
