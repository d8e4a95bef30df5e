/// What a SparseMatrix is made of.
#pragma once

#include "runtime/device.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace shardsolve::sparse {

/// Some rows of a slab.
struct RowSet {
  std::int64_t count = 0;
  std::int64_t entries = 0;
  std::int64_t first = 0;          ///< of rows that follow each other
  std::vector<std::int32_t> list;  ///< of others, ascending; empty if they follow each other
};

/// The rows of one rank. Columns are counted on this rank: first its own entries of x, then those
/// that come from other ranks, its halo, in ascending order of the global column. In its row each
/// entry has the place that it has in the whole matrix.
template <Scalar T>
struct CsrSlab {
  std::int64_t rows = 0;
  std::int64_t own = 0;                    ///< entries of x on this rank
  std::vector<std::int64_t> row_pointers;  ///< rows + 1
  std::vector<std::int32_t> columns;       ///< of each entry
  std::vector<T> values;
  std::vector<std::int64_t> halo;  ///< global columns of the halo
  RowSet interior;                 ///< rows that need nothing of the halo
  RowSet boundary;                 ///< the others

  std::int64_t global(std::int32_t column, std::int64_t first_own) const {
    return column < own ? first_own + column : halo[static_cast<std::size_t>(column - own)];
  }
};

/// What one rank sends and receives before a product. Ranks that it has nothing to do with have an
/// empty range.
struct HaloPlan {
  std::vector<std::int32_t> packed;  ///< own entries of x that are sent, rank after rank
  std::vector<std::int64_t>
      send_begin;  ///< packed[send_begin[r]] is the first for rank r; ranks + 1
  std::vector<std::int64_t> receive_begin;  ///< likewise of the halo, from rank r
};

/// The lists of a slab and a plan that kernels read, in the memory of a GPU.
template <Scalar T>
struct DeviceLists {
  runtime::Buffer memory;
  const std::int64_t* row_pointers;
  const std::int32_t* columns;
  const T* values;
  const std::int32_t* interior;
  const std::int32_t* boundary;
  const std::int32_t* packed;
};

/// One rank's share; empty if the rank is in another process.
template <Scalar T>
struct Part {
  CsrSlab<T> slab;
  HaloPlan plan;
  std::optional<DeviceLists<T>> on_gpu;  ///< where the rank is a GPU
};

template <Scalar T>
struct Parts {
  SlabLayout rows;
  SlabLayout columns;
  std::int64_t entries = 0;         ///< of all ranks
  std::int64_t lanes = 1;           ///< of the sum of a row
  std::vector<std::int64_t> halos;  ///< entries that each rank receives; of all ranks
  bool exchanges = false;           ///< whether any rank receives something
  std::vector<Part<T>> of_ranks;

  const Part<T>& of(std::int64_t rank) const { return of_ranks[static_cast<std::size_t>(rank)]; }
};

}  // namespace shardsolve::sparse
