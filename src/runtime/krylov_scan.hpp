/// What a scan of a vector finds; for the CPU and CUDA.
#pragma once

#include "runtime/host_and_device.hpp"

#include <cstdint>

namespace shardsolve::runtime {

struct Scan {
  std::int64_t first_nonfinite = -1;  ///< row of the slab; -1 if all are finite
  std::int64_t exponent = 0;          ///< e of the largest part |x| < 2^e; `zero` if all are 0
  std::int64_t least = -zero;         ///< e of the smallest one that is not 0; -`zero` if all are
  static constexpr std::int64_t zero = -100000;

  SHARDSOLVE_HOST_DEVICE bool is_zero() const { return exponent == zero; }
};

}  // namespace shardsolve::runtime
