/// Rows of sparse matrices as kernels take them; for the CPU and CUDA.
#pragma once

#include <cstdint>

namespace shardsolve::runtime {

/// The rows of one rank in device memory. Columns from `own` on are of the halo.
template <class T>
struct SparseRows {
  std::int64_t rows = 0;
  std::int64_t own = 0;
  std::int64_t halo = 0;
  std::int64_t lanes = 1;                      ///< L of sparse_row_sum.hpp
  const std::int64_t* row_pointers = nullptr;  ///< rows + 1
  const std::int32_t* columns = nullptr;       ///< of each entry
  const T* values = nullptr;                   ///< of each entry
};

/// Which of them a kernel computes.
struct RowChoice {
  std::int64_t count = 0;
  std::int64_t entries = 0;            ///< that they have
  std::int64_t first = 0;              ///< count rows from here on, or
  const std::int32_t* list = nullptr;  ///< these, in device memory, if it is not null
};

}  // namespace shardsolve::runtime
