/// Stands in for src/runtime/cuda/kernels/launch.cuh: see emulator.hpp.
#pragma once

#include "emulator.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#undef __shared__
#define __shared__ static thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

// As in device code, where they take floats for what they are.
using std::hypot;
using std::ilogb;
using std::isfinite;
using std::isnan;
using std::max;
using std::min;
using std::scalbn;
using std::sqrt;

template <class Real>
Real rsqrt(Real x) {
  return 1 / std::sqrt(x);
}

inline void __syncthreads() { shardsolve::emulation::wait_for_block(); }
inline void __syncwarp() { shardsolve::emulation::wait_for_warp(); }

template <class Value>
Value __shfl_sync(unsigned /*mask*/, Value value, int from) {
  return shardsolve::emulation::exchange(
      value, [from](auto of) { return of(from % shardsolve::emulation::lanes_a_warp); });
}
template <class Value>
Value __shfl_xor_sync(unsigned /*mask*/, Value value, int distance) {
  return shardsolve::emulation::exchange(
      value, [distance](auto of) { return of(shardsolve::emulation::lane() ^ distance); });
}
inline unsigned __ballot_sync(unsigned /*mask*/, bool vote) {
  return shardsolve::emulation::exchange(vote, [](auto of) {
    unsigned votes = 0;
    for (int lane = 0; lane < shardsolve::emulation::lanes_a_warp; ++lane) {
      votes |= static_cast<unsigned>(of(lane)) << lane;
    }
    return votes;
  });
}
inline bool __all_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) == ~0U; }
inline bool __any_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) != 0; }
inline unsigned __reduce_max_sync(unsigned /*mask*/, unsigned value) {
  return shardsolve::emulation::exchange(value, [](auto of) {
    unsigned largest = 0;
    for (int lane = 0; lane < shardsolve::emulation::lanes_a_warp; ++lane) {
      largest = std::max(largest, of(lane));
    }
    return largest;
  });
}
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}
/// PTX: prmt; `selector` has the numbers of four of the eight bytes.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const std::uint64_t all = (std::uint64_t{high} << 32U) | low;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned byte = (selector >> (4 * i)) & 7U;
    result |= static_cast<unsigned>((all >> (8 * byte)) & 0xffU) << (8 * i);
  }
  return result;
}
inline int __double2hiint(double x) {
  return static_cast<int>(std::bit_cast<std::int64_t>(x) >> 32U);
}
inline int __double2loint(double x) { return static_cast<int>(std::bit_cast<std::int64_t>(x)); }
inline double __hiloint2double(int high, int low) {
  return std::bit_cast<double>((std::int64_t{high} << 32U) | static_cast<unsigned>(low));
}
inline std::uint32_t __float_as_uint(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float __uint_as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }

namespace shardsolve::runtime::cuda {

struct Block {
  dim3 threads;
  std::size_t shared_bytes = 0;
};

inline void set_bytes(cudaStream_t /*stream*/, void* memory, unsigned char value,
                      std::size_t bytes) {
  std::memset(memory, value, bytes);
}

template <class... Parameters, class... Arguments>
void launch(cudaStream_t /*stream*/, void (*kernel)(Parameters...), std::int64_t blocks,
            Block block, const Arguments&... arguments) {
  emulation::run(blocks, block.threads, block.shared_bytes, [&] { kernel(arguments...); });
}
template <class... Parameters, class... Arguments>
void launch_early(cudaStream_t stream, void (*kernel)(Parameters...), std::int64_t blocks,
                  Block block, const Arguments&... arguments) {
  launch(stream, kernel, blocks, block, arguments...);
}
template <class... Parameters, class... Arguments>
void launch_together(cudaStream_t stream, void (*kernel)(Parameters...), std::int64_t blocks,
                     Block block, const Arguments&... arguments) {
  launch(stream, kernel, blocks, block, arguments...);
}
inline void begin_after_last() {}
template <class Parameter>
const std::int64_t* words_of(const Parameter& parameter) {
  return reinterpret_cast<const std::int64_t*>(&parameter);
}

template <class... Parameters>
bool is_for_sm_90(void (*)(Parameters...)) {
  return SHARDSOLVE_EMULATED_GPU >= 900;
}
/// For tests of what must not depend on it.
inline std::int64_t& multiprocessors() {
  thread_local std::int64_t count = 132;
  return count;
}
inline std::int64_t max_together() { return multiprocessors(); }
inline std::size_t& shared_limit() {
  thread_local std::size_t bytes = std::size_t{SHARDSOLVE_EMULATED_GPU >= 900 ? 227 : 96} << 10U;
  return bytes;
}
inline std::size_t max_shared() { return shared_limit(); }
template <class... Parameters>
void allow_shared(void (*)(Parameters...), std::size_t /*bytes*/) {}

template <class Contents>
Contents& dynamic_shared() {
  return *reinterpret_cast<Contents*>(emulation::shared_memory());
}
inline std::uint32_t shared_address(const void* place) {
  return static_cast<std::uint32_t>(static_cast<const std::byte*>(place) -
                                    emulation::shared_memory());
}

constexpr std::int64_t divide_up(std::int64_t count, std::int64_t size) {
  return (count + size - 1) / size;
}

}  // namespace shardsolve::runtime::cuda
