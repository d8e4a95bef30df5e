/// Where the devices of one call meet.
#pragma once

#include <xla/ffi/api/ffi.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

namespace shardsolve::jax {

/// Names one call among all that may be under way: which call site of which executable, which run
/// of it, and which group of devices where a mesh has axes that the matrix is not cut along. In a
/// loop one key comes again and again; each device then takes part in one gang after the other.
struct CallKey {
  std::int64_t site = 0;
  std::int64_t run = 0;
  std::int64_t group = 0;

  friend auto operator<=>(const CallKey&, const CallKey&) = default;
};

/// What one device brings: the memory of its operands and results, as the handler knows them.
struct Seat {
  static constexpr std::size_t most_buffers = 12;
  std::array<void*, most_buffers> buffers{};
};

/// Does the work once all seats are taken; `seats` are in rank order.
using Work = std::function<void(const std::vector<Seat>& seats)>;

/// Takes the seat of `rank` among `ranks`. Returns at once; what it returns completes when the work
/// has been done, on a thread of its own, or fails when a rank has not come within the time limit:
/// a handler must never wait, as the other devices may need its thread. The work of the rank that
/// comes last is done, which is the same for all.
xla::ffi::Future join(const CallKey& key, std::int64_t rank, std::int64_t ranks, const Seat& seat,
                      Work work);

/// How long a gang waits for its last rank, and a solve for a silent one. 300 s unless set.
void set_time_limit(std::chrono::duration<double> limit);
std::chrono::duration<double> time_limit();

}  // namespace shardsolve::jax
