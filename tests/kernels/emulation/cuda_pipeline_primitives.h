/// Stands in for CUDA's header of asynchronous copies: see emulator.hpp.
#pragma once

#include "emulator.hpp"

inline void __pipeline_memcpy_async(void* target, const void* source, std::size_t bytes,
                                    std::size_t zeros = 0) {
  shardsolve::emulation::copy_later(target, source, bytes, zeros);
}
inline void __pipeline_commit() { shardsolve::emulation::commit_copies(); }
inline void __pipeline_wait_prior(std::size_t but) { shardsolve::emulation::wait_for_copies(but); }
