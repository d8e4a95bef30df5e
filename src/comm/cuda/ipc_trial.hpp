/// Whether processes reach the memory of each other's GPUs.
#pragma once

#include "comm/cuda/ipc_board.hpp"
#include "comm/transport.hpp"

#include <memory>
#include <string>

namespace shardsolve::comm::cuda {

/// What a mesh over CUDA IPC needs, or why it cannot be.
struct IpcTrial {
  std::unique_ptr<IpcBoard> board;
  std::string failure;  ///< the same in all processes; empty if there is a board
};

/// All processes call it together, with their GPUs current: each shows the others a piece of
/// memory, reads theirs, and waits for a mark on the board.
IpcTrial try_ipc(Transport& transport);

}  // namespace shardsolve::comm::cuda
