/// Numbers of vectors, sums and the state of a Krylov solve in device code.
#pragma once

#include "runtime/cuda/element.hpp"
#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/fixed_dot.hpp"
#include "runtime/krylov/state.hpp"

#include <cstdint>

namespace shardsolve::runtime::cuda {

template <class E>
using SumOf = DotSum<RealPart<E>, parts<E>>;

template <class E>
const __device__ RealPart<E>* reals(const E& x) {
  return reinterpret_cast<const RealPart<E>*>(&x);
}
template <class E>
__device__ SumOf<E> sum_from(const E* place) {
  const E loaded = *place;
  SumOf<E> sum{};
  for (int at = 0; at < parts<E>; ++at) {
    sum.part[at] = reals(loaded)[at];
  }
  return sum;
}
template <class E>
__device__ void store_sum(const SumOf<E>& sum, E* place) {
  if constexpr (parts<E> == 2) {
    *place = {sum.part[0], sum.part[1]};
  } else {
    *place = sum.part[0];
  }
}

template <class E>
__device__ E quotient(E a, E b) {
  if constexpr (parts<E> == 2) {
    using Real = RealPart<E>;
    const krylov::Number result = krylov::divided({a.re, a.im}, {b.re, b.im});
    return {static_cast<Real>(result.re), static_cast<Real>(result.im)};
  } else {
    return a / b;
  }
}

/// Adds what the lane has whose number differs in the bits of `distance`.
template <class Real, int width>
__device__ void add_partner(DotSum<Real, width>& sum, int distance) {
  DotSum<Real, width> other{};
#pragma unroll
  for (int at = 0; at < width; ++at) {
    other.part[at] = __shfl_xor_sync(0xffffffffU, sum.part[at], distance);
  }
  sum.add(other);
}
/// All lanes of the warp get the tree over what they have.
template <class Real, int width>
__device__ void add_warp(DotSum<Real, width>& sum) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    add_partner(sum, distance);
  }
}
/// The lanes of a leaf, which are neighbours in a warp.
template <class Real, int width>
__device__ void add_lanes_of_leaf(DotSum<Real, width>& sum) {
#pragma unroll
  for (int distance = dot_lanes / 2; distance > 0; distance /= 2) {
    add_partner(sum, distance);
  }
}

/// A binary tree over 2^k sums that come one after the other: as on the CPU.
template <class Real, int width>
class SumTree {
 public:
  __device__ void begin() { count_ = 0; }
  __device__ void push(DotSum<Real, width> sum) {
    level_ = 0;
    for (std::int64_t pairs = count_++; (pairs & 1) != 0; pairs >>= 1) {
      DotSum<Real, width> left = waiting_[level_++];
      left.add(sum);
      sum = left;
    }
    waiting_[level_] = sum;
  }
  /// When all have come.
  __device__ DotSum<Real, width> total() const { return waiting_[level_]; }

 private:
  DotSum<Real, width> waiting_[33];  // for their partners, one a level
  int level_ = 0;                    // where the last one went
  std::int64_t count_ = 0;
};

/// An object in shared memory, which runs no constructors: copied there word by word.
template <class Object>
struct Words {
  static constexpr unsigned count = sizeof(Object) / sizeof(std::int64_t);
  static_assert(sizeof(Object) % sizeof(std::int64_t) == 0);
};
/// Copies `count` words by so many threads, of which this is number `thread`.
__device__ inline void copy_words(std::int64_t* target, const std::int64_t* source, unsigned count,
                                  unsigned thread, unsigned threads) {
#pragma unroll 4
  for (unsigned word = thread; word < count; word += threads) {
    target[word] = source[word];
  }
}

/// A copy of an object by `threads` threads in two steps, between which others may be under way.
template <class Object, unsigned threads>
class StagedCopy {
 public:
  explicit __device__ StagedCopy(const std::int64_t* source) {
#pragma unroll
    for (unsigned i = 0; i < words_a_thread; ++i) {
      const unsigned word = threadIdx.x + i * threads;
      held_[i] = word < count ? source[word] : 0;
    }
  }
  __device__ void put(std::int64_t* target) const {
#pragma unroll
    for (unsigned i = 0; i < words_a_thread; ++i) {
      const unsigned word = threadIdx.x + i * threads;
      if (word < count) {
        target[word] = held_[i];
      }
    }
  }

 private:
  static constexpr unsigned count = Words<Object>::count;
  static constexpr unsigned words_a_thread = (count + threads - 1) / threads;
  std::int64_t held_[words_a_thread];
};

}  // namespace shardsolve::runtime::cuda
