/// Numbers that thread blocks of this GPU or another one write, and that threads wait for. One that
/// is not there yet has all its bits set.
#pragma once

#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda {

/// A piece of up to eight bytes is read and written as a whole.
template <class E>
constexpr int pieces = sizeof(E) > sizeof(std::uint64_t) ? 2 : 1;
template <class E>
using Piece = std::conditional_t<sizeof(E) == sizeof(std::uint32_t), std::uint32_t, std::uint64_t>;

template <class E>
union Pieces {
  E value;
  Piece<E> piece[pieces<E>];
  __device__ Pieces() {}
};

template <class E>
__device__ bool is_written(const Pieces<E>& number) {
  bool all = true;
  for (int i = 0; i < pieces<E>; ++i) {
    all = all && number.piece[i] != static_cast<Piece<E>>(~Piece<E>{0});
  }
  return all;
}

template <class E>
__device__ Pieces<E> look(const E* place) {
  Pieces<E> number;
  for (int i = 0; i < pieces<E>; ++i) {
    number.piece[i] = reinterpret_cast<const volatile Piece<E>*>(place)[i];
  }
  return number;
}

/// Not a number that happens to look like no number.
template <class R>
__device__ R quiet(R x) {
  return x == x ? x : R(NAN);
}

template <class E>
__device__ void publish(E* place, E value) {
  Pieces<E> number;
  if constexpr (parts<E> == 2) {
    number.value = {quiet(value.re), quiet(value.im)};
  } else {
    number.value = quiet(value);
  }
  for (int i = 0; i < pieces<E>; ++i) {
    reinterpret_cast<volatile Piece<E>*>(place)[i] = number.piece[i];
  }
}

/// As if nothing had been written there.
template <class E>
__device__ void unpublish(E* place) {
  for (int i = 0; i < pieces<E>; ++i) {
    reinterpret_cast<volatile Piece<E>*>(place)[i] = ~Piece<E>{0};
  }
}

/// A warp's waiting, which ends when a rank has failed.
class Waiter {
 public:
  __device__ explicit Waiter(const volatile std::uint32_t* failed) : failed_(failed) {}

  /// The number at `place`, of which `seen` was seen before; nobody looks there if that is one. All
  /// lanes wait until all have theirs: a warp that has parted needs a hundred cycles for every
  /// number that its lanes pass on (H200).
  template <class E>
  __device__ E await(const E* place, Pieces<E> seen) {
    constexpr unsigned all_lanes = 0xffffffffU;
    constexpr unsigned between_looks_around = 2048;
    for (unsigned spins = 1; !__all_sync(all_lanes, is_written(seen)) && !given_up_; ++spins) {
      if (!is_written(seen)) {
        seen = look(place);
      }
      given_up_ = spins % between_looks_around == 0 && __any_sync(all_lanes, *failed_ != 0);
    }
    return seen.value;
  }

 private:
  const volatile std::uint32_t* failed_;
  bool given_up_ = false;
};

}  // namespace shardsolve::runtime::cuda
