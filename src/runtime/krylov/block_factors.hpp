/// Factors of the diagonal blocks of a matrix as kernels take them, and their arithmetic: the same
/// bits on the CPU and on GPUs. Products and differences are rounded one by one.
///
/// A block is solved with by two sweeps over its rows. In a sweep of a **band** a row, when its
/// turn comes, changes places with its pivot, is divided, and then the entries that belong to it
/// times it are subtracted from the `width` rows that come next, as far as there are so many. In a
/// sweep of a
/// **sparse** factor a row has the entries of its own times other rows subtracted from it, one
/// after the other; it is divided before or after that.
///
/// For the CPU and CUDA; C++ of neither's own.
#pragma once

#include "runtime/krylov/number.hpp"

#include <cstdint>

namespace shardsolve::krylov {

/// Places are counted from where the numbers or the lists of all blocks begin.
struct BlockSweep {
  static constexpr std::int64_t none = -1;

  std::int64_t entries = 0;         ///< numbers: band: width a row, of ascending rows
  std::int64_t divisors = none;     ///< numbers: one a row
  std::int64_t lists = none;        ///< band: pivots, one a row; sparse: see SparseLists
  std::int64_t width = 0;           ///< band
  std::int64_t levels = 0;          ///< sparse
  std::int32_t is_backward = 0;     ///< from the last row to the first
  std::int32_t divides_before = 0;  ///< sparse
};

struct FactoredBlock {
  std::int64_t begin = 0;  ///< rows of other blocks in front of it
  std::int64_t size = 0;
  BlockSweep sweeps[2];
};

/// In device memory.
template <class T>
struct BlockFactors {
  bool is_band = false;
  std::int64_t count = 0;
  std::int64_t largest = 0;  ///< rows of a block
  std::int64_t widest = 0;   ///< band: of all sweeps
  std::int64_t entries = 0;  ///< of all blocks
  const FactoredBlock* blocks = nullptr;
  const T* numbers = nullptr;
  const std::int32_t* lists = nullptr;
};

/// The lists of a sparse sweep of n rows, one behind the other. Rows of a level need nothing of
/// each other, and of rows of levels before it alone.
struct SparseLists {
  const std::int32_t* row_pointers;  ///< n + 1
  const std::int32_t* levels;        ///< n: rows, level after level
  const std::int32_t* level_begins;  ///< levels + 1
  const std::int32_t* columns;

  SHARDSOLVE_HOST_DEVICE SparseLists(const BlockSweep& sweep, std::int64_t n,
                                     const std::int32_t* lists)
      : row_pointers(lists + sweep.lists),
        levels(row_pointers + n + 1),
        level_begins(levels + n),
        columns(level_begins + sweep.levels + 1) {}
};

/// A number of a vector; two reals if `width` is 2, for complex numbers.
template <class Real, int width>
struct BlockNumber {
  Real part[width];

  __attribute__((always_inline)) SHARDSOLVE_HOST_DEVICE static BlockNumber from(const Real* place) {
    BlockNumber number{};
    for (int at = 0; at < width; ++at) {
      number.part[at] = place[at];
    }
    return number;
  }
  __attribute__((always_inline)) SHARDSOLVE_HOST_DEVICE void store(Real* place) const {
    for (int at = 0; at < width; ++at) {
      place[at] = part[at];
    }
  }
  /// -= a x.
  __attribute__((always_inline)) SHARDSOLVE_HOST_DEVICE void subtract(const BlockNumber& a,
                                                                      const BlockNumber& x) {
    if constexpr (width == 2) {
      part[0] -= a.part[0] * x.part[0] - a.part[1] * x.part[1];
      part[1] -= a.part[0] * x.part[1] + a.part[1] * x.part[0];
    } else {
      part[0] -= a.part[0] * x.part[0];
    }
  }
  __attribute__((always_inline)) SHARDSOLVE_HOST_DEVICE void divide(const BlockNumber& divisor) {
    if constexpr (width == 2) {
      const Number quotient = divided({part[0], part[1]}, {divisor.part[0], divisor.part[1]});
      part[0] = static_cast<Real>(quotient.re);
      part[1] = static_cast<Real>(quotient.im);
    } else {
      part[0] /= divisor.part[0];
    }
  }
};

}  // namespace shardsolve::krylov
