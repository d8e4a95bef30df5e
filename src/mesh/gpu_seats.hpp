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

/// CUDA's number of the GPU of a process. `place`: of the process among the `processes` of its
/// host; `visible`: GPUs that it sees. The number is devices[place]; if `devices` is empty, 0 where
/// it sees one GPU, else `place`. Throws Error(device) if there is no such GPU,
/// Error(invalid_argument) if `devices` is too short.
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

/// Throws, the same in all processes, unless each has a GPU of its own and all ask for the same
/// communicator. If several processes have a failure, that of the lowest rank is thrown.
void require_seats(const std::vector<GpuSeat>& seats, bool may_share);

/// Returns what body() does. All processes call it together; if body() throws in some, it throws in
/// all what body() has thrown in the lowest rank of those.
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

/// Why the ranks cannot reach each other's memory by CUDA IPC; empty if nothing is known against
/// it. `hosts`: of each rank; `topology`: between their GPUs, of a process that sees all of them.
std::string without_ipc(const std::vector<GpuSeat>& seats, const std::vector<std::int64_t>& hosts,
                        const comm::Topology& topology);

/// How data gets from one rank to another: as asked for; if nothing is asked for, by CUDA IPC, or
/// by NCCL if `against` says why not IPC. Throws Error(device) if IPC is asked for and `against` is
/// not empty.
GpuCommunicator choose_communicator(GpuCommunicator asked, const std::string& against);

}  // namespace shardsolve::mesh
