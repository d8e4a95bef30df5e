/// Which rows or columns of a distributed matrix one device holds.
#pragma once

#include <algorithm>
#include <cstdint>

namespace shardsolve::bench {

/// Local index -> global index: a contiguous run, or every `parts`-th block of `block` indices.
struct Axis {
  std::int64_t first = 0;
  std::int64_t block = 1;
  std::int64_t parts = 1;
  std::int64_t part = 0;

  static constexpr Axis contiguous(std::int64_t first) { return {first, 1, 1, 0}; }
  static constexpr Axis cyclic(std::int64_t block, std::int64_t parts, std::int64_t part) {
    return {0, block, parts, part};
  }

  constexpr std::int64_t global(std::int64_t local) const {
    return first + (local / block * parts + part) * block + local % block;
  }

  /// How many of n indices a cyclic axis has. ScaLAPACK: numroc.
  constexpr std::int64_t count(std::int64_t n) const {
    const std::int64_t blocks = n / block;
    const std::int64_t own = blocks / parts + (part < blocks % parts ? 1 : 0);
    return own * block + (part == blocks % parts ? n % block : 0);
  }
};

}  // namespace shardsolve::bench
