#include "krylov/local_blocks.hpp"

#include "core/each_dtype.hpp"
#include "core/floating_point.hpp"
#include "krylov/band_factor.hpp"
#include "krylov/incomplete_factor.hpp"
#include "runtime/host/block_sweeps.hpp"

#include <shardsolve/krylov.hpp>

#include <algorithm>
#include <cstddef>

namespace shardsolve::krylov {
namespace local_blocks {
namespace {

/// Numbers that a piece has about: what it costs to hand one to a thread is little beside them.
constexpr std::int64_t entries_of_piece = 65536;

/// The pattern of one block.
struct Shape {
  std::int64_t rows = 0;
  std::int64_t entries = 0;
  std::int64_t below = 0;  ///< entries below the diagonal
  std::int64_t lower = 0;  ///< bandwidths
  std::int64_t upper = 0;
};

template <Scalar T>
Shape shape_of(const CsrMatrix<T>& a, std::int64_t begin, std::int64_t end) {
  Shape shape{.rows = end - begin};
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t k = a.row_pointers[static_cast<std::size_t>(row)];
         k < a.row_pointers[static_cast<std::size_t>(row) + 1]; ++k) {
      const std::int64_t column = a.column_indices[static_cast<std::size_t>(k)];
      if (begin <= column && column < end) {
        ++shape.entries;
        shape.below += column < row ? 1 : 0;
        shape.lower = std::max(shape.lower, row - column);
        shape.upper = std::max(shape.upper, column - row);
      }
    }
  }
  return shape;
}

/// As add_to() of the factors and BlockTables fill them.
void add_lengths(BlockKind kind, const Shape& of, BlockLengths& lengths) {
  // Pointers, rows by levels, where levels begin: for each of two sweeps.
  const std::int64_t of_rows = 2 * (3 * of.rows + 2);
  switch (kind) {
    case BlockKind::block_jacobi: {
      // LU, with rows that change places; of a matrix that is Hermitian less.
      const std::int64_t upper = std::min(of.lower + of.upper, of.rows - 1);
      lengths.numbers += of.rows * (of.lower + upper + 2);
      lengths.lists += of.rows;
      lengths.widest = std::max(lengths.widest, upper);
      break;
    }
    case BlockKind::incomplete_lu:
      lengths.numbers += of.entries;
      lengths.lists += of_rows + of.entries;
      break;
    case BlockKind::incomplete_cholesky:
      lengths.numbers += 2 * of.below + of.rows;
      lengths.lists += of_rows + 2 * of.below;
      break;
  }
  lengths.largest = std::max(lengths.largest, of.rows);
}

template <Scalar T>
void require(BlockKind kind, const std::vector<std::int64_t>& blocks, const CsrMatrix<T>& a) {
  switch (kind) {
    case BlockKind::block_jacobi:
      Operator<T>::block_jacobi(blocks, a);
      break;
    case BlockKind::incomplete_lu:
      Operator<T>::incomplete_lu(blocks, a);
      break;
    case BlockKind::incomplete_cholesky:
      Operator<T>::incomplete_cholesky(blocks, a);
      break;
  }
}

template <Scalar T>
void solve(const LocalBlocks& call, std::int64_t begin, std::int64_t end) {
  const core::IeeeArithmetic scope;
  const BlockFactors<T> factors = call.factors<T>();
  const std::int64_t first = call.rank * call.rows;
  const std::int64_t first_of_x = call.size == call.all_rows ? 0 : first;
  for (std::int64_t b = begin; b < end; ++b) {
    const FactoredBlock& block = factors.blocks[b];
    T* const rows = static_cast<T*>(call.work) + (block.begin - first_of_x);
    std::copy_n(static_cast<const T*>(call.x) + (block.begin - first_of_x), block.size, rows);
    runtime::host::solve_block(factors, block, rows);
    const std::int64_t from = std::max(block.begin, first);
    const std::int64_t to = std::min(block.begin + block.size, first + call.rows);
    std::copy(rows + (from - block.begin), rows + (to - block.begin),
              static_cast<T*>(call.y) + (from - first));
  }
}

}  // namespace
}  // namespace local_blocks

std::string_view name(BlockKind kind) {
  switch (kind) {
    case BlockKind::block_jacobi:
      return "block_jacobi";
    case BlockKind::incomplete_lu:
      return "incomplete_lu";
    case BlockKind::incomplete_cholesky:
      return "incomplete_cholesky";
  }
  return "unknown";
}

template <Scalar T>
BlockLengths block_lengths(BlockKind kind, const std::vector<std::int64_t>& blocks,
                           const CsrMatrix<T>& a) {
  local_blocks::require(kind, blocks, a);
  BlockLengths lengths;
  for (std::size_t b = 0; b + 1 < blocks.size(); ++b) {
    local_blocks::add_lengths(kind, local_blocks::shape_of(a, blocks[b], blocks[b + 1]), lengths);
  }
  return lengths;
}

template <Scalar T>
BlockTables<T> factor_blocks(BlockKind kind, const std::vector<std::int64_t>& blocks,
                             const CsrMatrix<T>& a) {
  const core::IeeeArithmetic scope;
  BlockTables<T> tables(kind == BlockKind::block_jacobi);
  for (std::size_t b = 0; b + 1 < blocks.size(); ++b) {
    const GlobalRange rows{GlobalIndex(blocks[b]), GlobalIndex(blocks[b + 1])};
    switch (kind) {
      case BlockKind::block_jacobi:
        BandFactor<T>(a, rows).add_to(tables);
        break;
      case BlockKind::incomplete_lu:
        IncompleteLu<T>(a, rows).add_to(tables);
        break;
      case BlockKind::incomplete_cholesky:
        IncompleteCholesky<T>(a, rows).add_to(tables);
        break;
    }
  }
  return tables;
}

void run_on_host(const LocalBlocks& call, runtime::host::SpareThreads* spare) {
  if (*call.skip != 0 || call.rows == 0) {
    return;
  }
  // Those that have rows of this device.
  const std::int64_t first = call.rank * call.rows;
  const FactoredBlock* const end = call.blocks + call.count;
  const auto begins_behind = [](std::int64_t row, const FactoredBlock& block) {
    return row < block.begin;
  };
  const std::int64_t from =
      std::upper_bound(call.blocks, end, first, begins_behind) - call.blocks - 1;
  const std::int64_t to =
      std::upper_bound(call.blocks, end, first + call.rows - 1, begins_behind) - call.blocks;
  const std::int64_t pieces =
      std::clamp<std::int64_t>(call.entries / std::max<std::int64_t>(call.all_rows / call.rows, 1) /
                                   local_blocks::entries_of_piece,
                               1, to - from);
  runtime::host::in_pieces(spare, pieces, [&](std::int64_t piece) {
    with_dtype(call.dtype, [&]<class T>() {
      local_blocks::solve<T>(call, from + piece * (to - from) / pieces,
                             from + (piece + 1) * (to - from) / pieces);
    });
  });
}

#define SHARDSOLVE_INSTANTIATE(T)                                                    \
  template BlockLengths block_lengths(BlockKind, const std::vector<std::int64_t>&,   \
                                      const CsrMatrix<T>&);                          \
  template BlockTables<T> factor_blocks(BlockKind, const std::vector<std::int64_t>&, \
                                        const CsrMatrix<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::krylov
