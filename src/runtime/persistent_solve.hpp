/// A solve with a whole factor as two kernels a device, one for each sweep.
#pragma once

#include <shardsolve/matrix_view.hpp>

#include <cstdint>

namespace shardsolve::runtime {

/// Rows that are eliminated together, some of a step's. "First" and "before" are meant as the sweep
/// goes.
struct SolveBlock {
  std::int64_t row = 0;     ///< the first, in the slab
  std::int64_t column = 0;  ///< the first, in the owner's slab
  std::int32_t size = 0;
  std::int32_t owner = 0;
  std::int32_t number = 0;  ///< over all ranks
  std::int32_t before = 0;  ///< blocks of this rank that come before it
};

/// A solve with a triangular matrix M, whose blocks follow each other as here.
struct SolveSweep {
  static constexpr std::int32_t max_ranks = 16;

  const SolveBlock* blocks = nullptr;  ///< of all ranks; device memory
  const SolveBlock* own = nullptr;     ///< this rank's, likewise
  std::int32_t first[max_ranks] = {};  ///< number of each rank's first block
  /// Columns of the slab are rows of M: M is a transpose of L or U. Else they are its columns.
  bool by_columns = false;
  bool conjugated = false;  ///< M has the conjugates of what is in the slab
  bool unit = false;        ///< the diagonal counts as 1
};

/// What the kernels of persistent_solve take on one rank: they solve M1 M2 x = b for one
/// right-hand side, first with M1 in the order of elimination, then with M2 in the opposite one.
/// The kernels of all ranks run side by side, write to each other's memory and wait for each other:
/// all of them must be started. Every bit of that memory is set at the start.
template <class T>
struct PersistentSolveArguments {
  MatrixView<const T> slab;  ///< this rank's columns of the factor
  T* b = nullptr;            ///< this rank's rows; x replaces them
  SolveSweep sweeps[2];
  std::int32_t count = 0;  ///< of blocks
  std::int32_t own_count = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::int64_t width = 0;  ///< columns of the widest slab
  /// Of each rank, for each sweep, by columns, n elements: x; by rows, (ranks + 1) width: what each
  /// rank has summed up for this rank's rows, and this rank's rows of the solution.
  T* memory[SolveSweep::max_ranks] = {};
  std::int64_t second = 0;  ///< there, of the second sweep's
};

}  // namespace shardsolve::runtime
