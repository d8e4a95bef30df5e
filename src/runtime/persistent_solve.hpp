/// A solve with a whole factor as one kernel a device.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

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

/// L L^H x = b for one right-hand side. Ranks write to each other's memory while their kernels run
/// side by side, and wait for each other in them; so all of them must be started.
template <Scalar T>
struct PersistentSolve {
  static constexpr std::int64_t most_ranks = 16;
  /// What is everywhere in the ranks' memory at the start: no result of a calculation.
  static T unwritten() {
    using Real = RealOf<T>;
    using Bits = std::conditional_t<sizeof(Real) == 8, std::uint64_t, std::uint32_t>;
    const auto ones = std::bit_cast<Real>(static_cast<Bits>(~Bits{0}));
    if constexpr (is_complex<T>) {
      return {ones, ones};
    } else {
      return ones;
    }
  }

  MatrixView<const T> slab;            ///< this rank's columns of L
  T* b = nullptr;                      ///< this rank's rows; x replaces them
  const SolveBlock* blocks = nullptr;  ///< of all ranks in elimination order; device memory
  const SolveBlock* own = nullptr;     ///< this rank's, likewise
  std::int32_t count = 0;
  std::int32_t own_count = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  std::array<std::int32_t, most_ranks> first{};  ///< number of each rank's first block
  std::int64_t width = 0;                        ///< columns of the widest slab
  std::array<T*, most_ranks> memory{};           ///< memory_size() elements of each rank

  /// What is in a rank's memory: x; for each rank what it has summed up for this rank's rows; and
  /// this rank's rows of the solution of L y = b.
  std::int64_t sums(std::int64_t from) const { return slab.rows() + from * width; }
  std::int64_t forward() const { return sums(ranks); }
  std::int64_t memory_size() const { return sums(ranks + 1); }
};

}  // namespace shardsolve::runtime
