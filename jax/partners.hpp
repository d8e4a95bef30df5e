/// The other processes that calls on a GPU wait for, and waiting for them.
///
/// What lets the ranks of a call meet is a collective of XLA, and on GPUs XLA waits there without
/// end for a process that is gone. Nobody can take it out of there, but the handler that waits for
/// it can look whether the others are alive, and say who is not.
#pragma once

#include "jax/invitation.hpp"
#include "mesh/cuda_loader.hpp"

#include <cstdint>

namespace shardsolve::jax {

/// Remembers who makes calls of that many ranks with this GPU.
void remember_partners(int device, const Invitations& all);

/// Waits until all that XLA has enqueued on the stream has been done, for a call of so many ranks.
/// If one of the processes that made the last such call with this GPU is gone, or does not answer
/// for the time limit, it throws Error(communication), which names the rank. Where calls of so many
/// ranks were made with other processes before, or with nobody, it just waits.
void wait_for(const mesh::CudaStream& stream, std::int64_t ranks);

/// Whether wait_for() has left a stream that will never be done: then the process has to end
/// without waiting for its GPU.
bool has_left_a_stream();

}  // namespace shardsolve::jax
