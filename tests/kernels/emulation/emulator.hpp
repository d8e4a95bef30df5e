/// A GPU for kernels that run on the CPU: one thread block after the other, each of its threads a
/// fiber that runs until it has to wait for others. Where threads give way to other blocks, those
/// take turns.
///
/// Headers of this directory stand in for those of the same names that kernels include. What is
/// emulated: barriers of blocks and warps, exchanges between lanes, shared memory, asynchronous
/// copies, tensor cores, blocks that wait for each other, clusters of all blocks. What is not: the
/// tensor memory accelerator, atomics but those of meeting.cuh, memory that is declared as shared
/// (it is that of all blocks) in kernels whose blocks take turns.
///
/// A warp goes on for as long as it can, and Order says who is next. So where a barrier of the
/// block is missing, some order lets a thread read what has not been written yet, or no longer.
/// Not noticed is what a GPU forbids all the same: exchanges between lanes are barriers of their
/// warp here, threads that have ended are not waited for, and whether waiting threads wait at the
/// same place of the program is not asked.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

// What code of kernels knows of itself.
extern thread_local uint3 threadIdx;
extern thread_local uint3 blockIdx;
extern thread_local dim3 blockDim;

namespace shardsolve::emulation {

inline constexpr int lanes_a_warp = 32;
/// Of one exchange.
inline constexpr std::size_t max_bytes = 96;

/// In which the threads of a block, and the blocks, take their turns. Asynchronous copies are made
/// at once in the backward order, in the others when they are waited for. In the lagging order one
/// warp of each block goes on only when nobody else can.
enum class Order : std::uint8_t { forward, backward, shuffled, lagging };

/// From here on, on this thread.
void set_order(Order order);

/// Runs `kernel` in every thread of every block. Dynamic shared memory holds NaN in the beginning,
/// what is declared with its size what the block before has left. Throws
/// std::runtime_error if threads wait for others that do not come.
void run(std::int64_t blocks, dim3 threads, std::size_t shared_bytes,
         const std::function<void()>& kernel);

/// Of the block, which lies at a multiple of 1024 bytes.
std::byte* shared_memory();

/// What lies in the shared memory of that block where `place` lies in this one's. All blocks have
/// begun.
void* in_block(void* place, int block);
/// All threads of all blocks wait for each other.
void meet_all_blocks();

/// Until other blocks have had their turns. `in_vain`: what was looked for is not there yet. If
/// that is so for all, run() throws.
void give_way(bool in_vain);
void wait_for_block();
void wait_for_warp();

/// What each lane of this warp gives, in memory that is used again after the next exchange.
using Slots = std::array<std::array<std::byte, max_bytes>, lanes_a_warp>;
Slots& slots();
int lane();

/// Calls `use` with what a lane gives as a function of its number, when all lanes have given it.
template <class Value, class Use>
auto exchange(const Value& mine, Use use) {
  static_assert(sizeof(Value) <= max_bytes);
  std::memcpy(slots()[static_cast<std::size_t>(lane())].data(), &mine, sizeof(Value));
  wait_for_warp();
  const auto result = use([](int from) {
    Value value;
    std::memcpy(&value, slots()[static_cast<std::size_t>(from)].data(), sizeof(Value));
    return value;
  });
  wait_for_warp();
  return result;
}

/// An asynchronous copy of this thread.
void copy_later(void* target, const void* source, std::size_t bytes, std::size_t zeros);
void commit_copies();
void wait_for_copies(std::size_t but);

}  // namespace shardsolve::emulation
