/// Which GPU each process of a mesh has, and what it tells the others of it.
#pragma once

#include "comm/topology.hpp"
#include "comm/transport.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/mesh.hpp>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace shardsolve::mesh {

/// CUDA's number of the GPU of a process: what `devices` has for its place among the processes of
/// its host, or, if that is empty, the GPU with the number of that place; the only one that it sees
/// where it sees one. Throws Error(device) if there is none, Error(invalid_argument) if `devices`
/// is too short.
int choose_gpu(const std::vector<int>& devices, std::int64_t place, std::int64_t processes,
               std::int64_t visible);

/// What a rank tells the others of its GPU, as text.
struct GpuSeat {
  ErrorKind error = ErrorKind::internal;
  std::string failure;               ///< why it has none; empty if it has
  std::string gpu;                   ///< the same for nobody else: its UUID
  std::vector<std::string> visible;  ///< UUIDs of the GPUs that this process sees
  GpuCommunicator communicator = GpuCommunicator::automatic;  ///< asked for
  std::uint64_t process = 0;  ///< a number that no other has; 0: not told

  /// `reason`: what was thrown on the way to it.
  void set_failure(const std::exception_ptr& reason);
  std::string text() const;
  static GpuSeat of_text(const std::string& text);
};

/// Those of all processes, by rank; all call it together.
std::vector<GpuSeat> tell_seats(comm::Transport& transport, const GpuSeat& own);

/// Throws, the same in all processes, unless each has one GPU, of its own, and all ask for the same
/// communicator; of failures that of the lowest rank.
void require_seats(const std::vector<GpuSeat>& seats, bool may_share);

/// What body() returns; all call it together. Throws, the same in all processes, if it throws in
/// one: what it throws in the lowest of them.
template <class Body>
auto in_all_or_none(comm::Transport& transport, Body body) {
  std::optional<std::invoke_result_t<Body>> result;
  GpuSeat seat;
  try {
    result.emplace(body());
  } catch (...) {
    seat.set_failure(std::current_exception());
  }
  require_seats(tell_seats(transport, seat), true);
  return std::move(*result);
}

/// Why the ranks cannot reach each other's memory by CUDA IPC, as far as this says; empty if they
/// may. `hosts`: of each rank; `topology`: between their GPUs, of a process that sees all of them.
std::string without_ipc(const std::vector<GpuSeat>& seats, const std::vector<std::int64_t>& hosts,
                        const comm::Topology& topology);

/// How data gets from one rank to another: as asked for, else by CUDA IPC where nothing is
/// `against` it, else by NCCL. Throws Error(device) if IPC is asked for and something is.
GpuCommunicator choose_communicator(GpuCommunicator asked, const std::string& against);

}  // namespace shardsolve::mesh
