/// Where GPUs wait for each other's events.
///
/// Left out of scripts/prove_waits.py: ThreadSanitizer sees neither the memory of GPUs nor the
/// order of their streams. The tests of GPUs run these waits, none of them with one left out.
#pragma once

#include "runtime/queue.hpp"

#include <array>

namespace shardsolve::comm::cuda::sites {

using runtime::WaitSite;

// PeerCommunicator
inline constexpr WaitSite piece_ready{80, "a piece is taken when it is there"};
inline constexpr WaitSite piece_delivered{81, "a piece's memory is used again when taken"};

// PeerWindow
inline constexpr WaitSite part_there{82, "a part is copied when its source has it"};
inline constexpr WaitSite part_copied{83, "a window's memory is used again when it was copied"};

// DirectMemory
inline constexpr WaitSite all_are_here{84, "ranks begin with each other's memory together"};

inline constexpr std::array all{piece_ready, piece_delivered, part_there, part_copied,
                                all_are_here};

}  // namespace shardsolve::comm::cuda::sites
