/// Fronts of a Cholesky factorisation as kernels take them.
#pragma once

#include <cstdint>

namespace shardsolve::runtime {

/// Numbers in the panel of a front from which on it is wide: many blocks of threads solve with it.
inline constexpr std::int64_t wide_panel = std::int64_t{1} << 19U;

/// A front as kernels take it. Pointers are to device memory.
struct DeviceFront {
  double* panel;  ///< its own columns of L: (own + outer) x own, column-major
  double* rest;   ///< outer x outer, lower triangle: what it leaves to its parent
  double* local;  ///< own + outer numbers, in use while a vector goes up and down the tree
  const std::int32_t* places;  ///< of its columns, own ones first, where they are in a vector
  const std::int32_t* parent_columns;  ///< of its outer columns, which ones of the parent's front
  const std::int32_t* children;        ///< their numbers among all fronts, in the order of sums
  std::int32_t children_count;
  std::int32_t parent;  ///< its number among all fronts; -1
  std::int32_t own;
  std::int32_t outer;
  std::int32_t is_wide;  ///< 1 or 0: by its own size alone, so that bits depend on no batch
};

/// Fronts [first, first + count) of all, none of which is above another.
struct FrontBatch {
  const DeviceFront* all = nullptr;  ///< in device memory
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t max_own = 0;
  std::int64_t max_outer = 0;
  std::int64_t max_columns = 0;   ///< own and outer ones of one front
  std::int64_t wide_own = 0;      ///< the most own columns of a wide front; 0: none is
  std::int64_t wide_columns = 0;  ///< own and outer ones of a wide front
  double flops = 0.0;             ///< of factor()
  double entries = 0.0;           ///< of the panels together
};

/// Columns of a lower triangle, from the diagonal down, in a matrix and one behind the other in
/// packed memory. Pointers are to device memory.
struct ColumnMove {
  double* matrix;
  std::int64_t stride;
  const std::int32_t* rows;     ///< of each row of the triangle, which one of the matrix it is
  std::int64_t rows_count;      ///< of the triangle
  const std::int32_t* columns;  ///< which of the triangle's are moved
  const std::int32_t* places;   ///< of each, which column of the matrix it is
  const std::int64_t* begin;    ///< of each, where row 0 of it would be in packed memory
  std::int64_t count;           ///< of columns that are moved
  double* packed;
};

}  // namespace shardsolve::runtime
