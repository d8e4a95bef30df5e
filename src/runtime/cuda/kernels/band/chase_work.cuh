/// What the kernels that chase have in common: which tasks they have, and how the blocks of threads
/// tell each other what is done.
#pragma once

#include "runtime/chase.hpp"
#include "runtime/cuda/kernels/matrix.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <cstddef>
#include <cstdint>

namespace shardsolve::runtime::cuda {

/// What blocks tell each other: who takes which sweep, and how many tasks of each sweep of the
/// group are done.
struct ChaseProgress {
  std::uint32_t* numbers;
  std::uint32_t* done;

  static constexpr std::size_t alignment = 128;
  static ChaseProgress in(void* scratch) {
    return {static_cast<std::uint32_t*>(scratch),
            reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(scratch) + alignment)};
  }
};

template <class E>
struct ChaseWork {
  DeviceMatrix<E> band;
  DeviceMatrix<E> reflectors;
  ChaseProgress progress;
  std::int64_t size;
  std::int64_t bandwidth;
  std::int64_t group_first;  ///< sweep
  std::int64_t group_count;
  std::int64_t first;  ///< sweep that has tasks in these waves
  std::int64_t count;
  WaveRange waves;

  // As Chase has it.
  __device__ std::int64_t tasks(std::int64_t sweep) const {
    return (size - 1 - sweep + bandwidth - 1) / bandwidth;
  }
};

template <class R>
struct TwoNumbers {
  R sum;
  R lacks;
};

/// x + y to twice the precision. Source: D. E. Knuth, The Art of Computer Programming 2, 4.2.2.
template <class R>
__device__ TwoNumbers<R> in_two(R x, R y) {
  const R sum = x + y;
  const R part = sum - x;
  return {sum, (x - (sum - part)) + (y - part)};
}

}  // namespace shardsolve::runtime::cuda
