/// Stands in for src/runtime/cuda/kernels/root_estimate.cuh: see emulator.hpp.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace shardsolve::runtime::cuda {

/// With no more bits than the GPU's.
inline double root_estimate(double x) {
  constexpr std::uint64_t kept = ~std::uint64_t{0} << 32U;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(1.0 / std::sqrt(x)) & kept);
}
inline float root_estimate(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(1.0F / std::sqrt(x)) & ~1U);
}

}  // namespace shardsolve::runtime::cuda
