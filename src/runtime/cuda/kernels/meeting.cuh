/// Blocks of one kernel that wait for each other, and what they tell each other in the GPU's
/// memory.
#pragma once

#include "runtime/cuda/kernels/clang.cuh"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// As it is in the memory that all blocks see, not in a cache of this multiprocessor.
template <class E>
__device__ E load_fresh(const E* place) {
  if constexpr (parts<E> == 2 && sizeof(E) == 16) {
    const double2 pair = __ldcg(reinterpret_cast<const double2*>(place));
    return {pair.x, pair.y};
  } else if constexpr (parts<E> == 2) {
    const float2 pair = __ldcg(reinterpret_cast<const float2*>(place));
    return {pair.x, pair.y};
  } else {
    return __ldcg(place);
  }
}
template <class E>
__device__ void store_through(E* place, E value) {
  if constexpr (parts<E> == 2 && sizeof(E) == 16) {
    __stcg(reinterpret_cast<double2*>(place), double2{value.re, value.im});
  } else if constexpr (parts<E> == 2) {
    __stcg(reinterpret_cast<float2*>(place), float2{value.re, value.im});
  } else {
    __stcg(place, value);
  }
}

inline __device__ std::uint32_t acquire(const std::uint32_t* place) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(place) : "memory");
  return value;
}

/// A word that other blocks wait for: any but all bits set, which is what is not there yet.
template <class Word>
__device__ void tell(Word* place, Word word) {
  *static_cast<volatile Word*>(place) = word;
}
/// By all lanes of a warp: each one's word, once all are there.
template <class Word>
__device__ Word hear(const Word* place) {
  const auto look = [place] { return *static_cast<const volatile Word*>(place); };
  constexpr auto nothing = static_cast<Word>(~Word{0});
  Word word = look();
  while (!__all_sync(0xffffffffU, word != nothing)) {
    if (word == nothing) {
      word = look();
    }
  }
  return word;
}

/// Likewise of several places, which are all looked at before any is waited for.
template <class Word, int count>
__device__ void hear_each(const Word* const (&places)[count], Word (&words)[count]) {
  constexpr auto nothing = static_cast<Word>(~Word{0});
#pragma unroll
  for (int i = 0; i < count; ++i) {
    words[i] = *static_cast<const volatile Word*>(places[i]);
  }
#pragma unroll
  for (int i = 0; i < count; ++i) {
    while (!__all_sync(0xffffffffU, words[i] != nothing)) {
      if (words[i] == nothing) {
        words[i] = *static_cast<const volatile Word*>(places[i]);
      }
    }
  }
}

/// By all threads of the block: returns when `flag` is at least `value`. What its writer had
/// written before is seen then.
inline __device__ void await(const std::uint32_t* flag, std::uint32_t value) {
  if (threadIdx.x == 0) {
    while (acquire(flag) < value) {
    }
  }
  __syncthreads();
}

/// By all threads of the block: `flag` becomes `value` once what they have written can be seen.
inline __device__ void announce(std::uint32_t* flag, std::uint32_t value) {
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
  }
}

/// By all threads of `blocks` blocks that run at the same time: nobody goes on before all have come
/// for the `turn`-th time, counted from 1. `counter` is 0 before the first time.
inline __device__ void meet(std::uint32_t* counter, std::uint32_t blocks, std::uint32_t turn) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(counter, 1U);
    while (acquire(counter) < blocks * turn) {
    }
  }
  __syncthreads();
}

/// By one thread of each of `blocks` blocks: 0, 1, ... in the order in which they come. A block
/// with a number runs, and so do those with smaller ones: they may be waited for. `counter` is 0
/// before and after the kernel.
inline __device__ std::uint32_t take_number(std::uint32_t* counter, std::uint32_t blocks) {
  return atomicInc(counter, blocks - 1);
}

/// By all threads of each of `blocks` blocks, once: whether all other blocks have been here. What
/// they had written before is seen then. `counter` is 0 before and after the kernel.
inline __device__ bool is_last_to_come(std::uint32_t* counter, std::uint32_t blocks) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = take_number(counter, blocks) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  return is_last;
}

}  // namespace shardsolve::runtime::cuda
