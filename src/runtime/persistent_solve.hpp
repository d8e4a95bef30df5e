/// A solve with a whole factor as one kernel a device.
#pragma once

#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// Rows that are eliminated together, some of a step's.
struct SolveBlock {
  std::int64_t row = 0;     ///< the first, in the matrix
  std::int64_t column = 0;  ///< the first, in the owner's slab
  std::int32_t size = 0;
  std::int32_t owner = 0;
  std::int32_t number = 0;  ///< in elimination order, over all ranks
  std::int32_t before = 0;  ///< blocks of this rank that come before it
};

/// What the kernel persistent_solve takes on one rank: it solves L L^H x = b for one right-hand
/// side. The kernels of all ranks run side by side, write to each other's memory and wait for each
/// other: all of them must be started. Every bit of that memory is set at the start.
template <class T>
struct PersistentSolveArguments {
  static constexpr std::int32_t max_ranks = 16;

  MatrixView<const T> slab;            ///< this rank's columns of L
  T* b = nullptr;                      ///< this rank's rows; x replaces them
  const SolveBlock* blocks = nullptr;  ///< of all ranks in elimination order; device memory
  const SolveBlock* own = nullptr;     ///< this rank's, likewise
  std::int32_t count = 0;
  std::int32_t own_count = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::int32_t first[max_ranks] = {};  ///< number of each rank's first block
  std::int64_t width = 0;              ///< columns of the widest slab
  T* memory[max_ranks] = {};           ///< memory_size() elements of each rank

  /// What is in a rank's memory: x; for each rank what it has summed up for this rank's rows; and
  /// this rank's rows of the solution of L y = b.
  std::int64_t memory_size() const { return slab.rows() + (ranks + 1) * width; }
};

}  // namespace shardsolve::runtime
