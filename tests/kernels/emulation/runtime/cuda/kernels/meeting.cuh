/// Stands in for src/runtime/cuda/kernels/meeting.cuh: see emulator.hpp. Blocks give way to others
/// wherever those may see something new.
#pragma once

#include "runtime/cuda/kernels/launch.cuh"

#include <cstdint>

namespace shardsolve::runtime::cuda {

template <class E>
E load_fresh(const E* place) {
  return *place;
}
template <class E>
void store_through(E* place, E value) {
  *place = value;
}

template <class Word>
void tell(Word* place, Word word) {
  *place = word;
  emulation::give_way(false);
}
template <class Word>
Word hear(const Word* place) {
  while (*static_cast<const volatile Word*>(place) == static_cast<Word>(~Word{0})) {
    emulation::give_way(true);
  }
  __syncwarp();
  return *place;
}

template <class Word, int count>
void hear_each(const Word* const (&places)[count], Word (&words)[count]) {
  for (int i = 0; i < count; ++i) {
    words[i] = hear(places[i]);
  }
}

inline void await(const std::uint32_t* flag, std::uint32_t value) {
  if (threadIdx.x == 0) {
    while (*flag < value) {
      emulation::give_way(true);
    }
  }
  __syncthreads();
}

inline void announce(std::uint32_t* flag, std::uint32_t value) {
  __syncthreads();
  if (threadIdx.x == 0) {
    *flag = value;
    emulation::give_way(false);
  }
}

inline void meet(std::uint32_t* counter, std::uint32_t blocks, std::uint32_t turn) {
  __syncthreads();
  if (threadIdx.x == 0) {
    ++*counter;
    while (*counter < blocks * turn) {
      emulation::give_way(true);
    }
  }
  __syncthreads();
}

inline std::uint32_t take_number(std::uint32_t* counter, std::uint32_t blocks) {
  const std::uint32_t number = *counter;
  *counter = (number + 1) % blocks;
  return number;
}

/// Blocks do not give way before they come here.
inline bool is_last_to_come(std::uint32_t* counter, std::uint32_t blocks) {
  static bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = take_number(counter, blocks) == blocks - 1;
  }
  __syncthreads();
  return is_last;
}

}  // namespace shardsolve::runtime::cuda
