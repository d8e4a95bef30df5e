#include "krylov/local_blocks.hpp"

#include "core/each_dtype.hpp"
#include "core/floating_point.hpp"
#include "krylov/band_factor.hpp"
#include "krylov/incomplete_factor.hpp"
#include "runtime/krylov_kernels.hpp"

#include <shardsolve/krylov.hpp>

#include <algorithm>
#include <cstddef>

namespace shardsolve::krylov {
namespace local_blocks {
namespace {

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

void enqueue(const runtime::KernelSource& device, runtime::Queue& queue, const LocalBlocks& call) {
  with_dtype(call.dtype, [&]<class T>() {
    const BlockFactors<T> factors{.is_band = call.is_band,
                                  .count = call.count,
                                  .largest = call.largest,
                                  .widest = call.widest,
                                  .entries = call.entries,
                                  .blocks = call.blocks,
                                  .numbers = static_cast<const T*>(call.numbers),
                                  .lists = call.lists};
    device.kernels<runtime::KrylovKernels<T>>().solve_blocks(
        queue, "blocks", factors, {static_cast<const T*>(call.x), call.size, 1},
        {static_cast<T*>(call.work), call.size, 1}, call.rank * call.rows,
        {static_cast<T*>(call.y), call.rows, 1}, call.skip, call.rank_at);
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
