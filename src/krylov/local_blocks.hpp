/// Preconditioners of factored blocks that one device makes and applies by itself, with its memory:
/// what the JAX package calls. Factors and kernels are those of Operator::block_jacobi,
/// incomplete_lu and incomplete_cholesky, so the bits are.
#pragma once

#include "krylov/block_tables.hpp"
#include "runtime/kernel_set.hpp"
#include "runtime/queue.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/sparse.hpp>

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace shardsolve::krylov {

/// Which factors blocks have.
enum class BlockKind : std::uint8_t { block_jacobi, incomplete_lu, incomplete_cholesky };
constexpr std::array<BlockKind, 3> block_kinds{BlockKind::block_jacobi, BlockKind::incomplete_lu,
                                               BlockKind::incomplete_cholesky};

/// That of the function of Operator.
std::string_view name(BlockKind kind);

/// How long factors of blocks of a matrix are at most, whatever its values.
struct BlockLengths {
  std::int64_t numbers = 0;
  std::int64_t lists = 0;
  std::int64_t largest = 0;  ///< as in BlockFactors
  std::int64_t widest = 0;
};

/// Throws what the function of Operator throws of such blocks and such a matrix.
template <Scalar T>
BlockLengths block_lengths(BlockKind kind, const std::vector<std::int64_t>& blocks,
                           const CsrMatrix<T>& a);

/// Factors all blocks of a square matrix, columns of each row ascending.
template <Scalar T>
BlockTables<T> factor_blocks(BlockKind kind, const std::vector<std::int64_t>& blocks,
                             const CsrMatrix<T>& a);

/// y = block^-1 x in the rows of one device, unless *skip is not 0. Memory is the device's.
struct LocalBlocks {
  Dtype dtype = Dtype::float64;
  bool is_band = false;
  std::int64_t count = 0;    ///< blocks
  std::int64_t largest = 0;  ///< as in BlockFactors
  std::int64_t widest = 0;
  std::int64_t entries = 0;
  const FactoredBlock* blocks = nullptr;  ///< of all rows
  const void* numbers = nullptr;
  const std::int32_t* lists = nullptr;
  std::int64_t rows = 0;  ///< of y: those from rank * rows on
  std::int64_t rank = 0;
  const void* x = nullptr;
  /// Of x and work: all rows; or those of y, where no block is cut by a device's boundary.
  std::int64_t size = 0;
  void* work = nullptr;
  void* y = nullptr;
  const std::int32_t* skip = nullptr;
  /// On a GPU: where the rank is in its memory, as the host does not know it.
  const std::int32_t* rank_at = nullptr;
};

/// Does nothing but enqueue.
void enqueue(const runtime::KernelSource& device, runtime::Queue& queue, const LocalBlocks& call);

}  // namespace shardsolve::krylov
