/// Meshes whose ranks are in several processes: how a call gets to its mesh, and when it is its
/// turn.
#pragma once

#include "jax/invitation.hpp"

#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace shardsolve {
class Trace;
}

namespace shardsolve::jax {

class ProcessRank;

/// One rank's turn on its mesh. Nobody else has the mesh, or the record of a trace, meanwhile.
class Turn {
 public:
  Turn(std::shared_ptr<ProcessRank> rank, std::uint32_t ticket, bool watched);
  Turn(Turn&&) noexcept;
  ~Turn();

  Mesh& mesh() const;
  RunOptions run;

 private:
  std::shared_ptr<ProcessRank> rank_;
  std::unique_ptr<Trace> own_trace_;
  std::unique_lock<std::mutex> tracing_;
};

/// The turn of the call to which these invite, for one of its ranks: connects the ranks if they
/// have not met, and waits until rank 0 has begun this call and all that it has begun before are
/// over. So calls that are under way at the same time run in the same order everywhere.
///
/// `watched`: whether it is recorded and shows its progress, the same on all ranks.
///
/// Throws Error(invalid_argument) if processes do not make the same call, Error(communication) if
/// they cannot be reached, if rank 0 does not begin in time, or if the mesh has lost a rank, and
/// Error(device) if GPUs of theirs cannot work together.
Turn take_turn(const Invitations& all, std::int64_t rank, bool watched = true);

/// What is wrong with the process of a rank, in a sentence that names both; empty if it answers
/// within the time limit.
std::string trouble_with(std::int64_t rank, const comm::tcp::Address& address);

}  // namespace shardsolve::jax
