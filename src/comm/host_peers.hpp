/// Memory that CPU ranks of several processes of one host share.
#pragma once

#include "comm/communicator.hpp"
#include "comm/host_board.hpp"
#include "comm/process_group.hpp"
#include "comm/release_agreement.hpp"
#include "comm/shared_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace shardsolve::comm {

/// One rank's end. Its workspace is one piece of shared memory, which the others open with the
/// first window in it and have open from call to call; windows in it are read in place.
///
/// Counters only go up: each call counts in a range of numbers of its own, ahead of those of
/// earlier calls. So no process has to wait until another has set its counters back.
class HostPeers {
 public:
  /// `pulses`: of all ranks.
  HostPeers(ProcessGroup& processes, const Pulses& pulses, std::unique_ptr<HostBoard> board);
  HostPeers(const HostPeers&) = delete;
  HostPeers& operator=(const HostPeers&) = delete;

  /// As Communicator has them. If the system gives this process no memory to share, there is no
  /// workspace from then on: the process has its own elsewhere.
  void begin_call();
  /// Closes what was open of processes that are lost: their memory goes with them.
  void end_call();
  Bytes make_workspace(std::size_t bytes);
  Bytes workspace() const;
  /// Null, on all ranks, if the buffer of one lies elsewhere, if one does not reach another's, or
  /// if the call has made HostBoard::max_windows windows already.
  std::unique_ptr<Window> make_window(Bytes memory);

 private:
  static constexpr std::uint32_t numbers_of_a_call = std::uint32_t{1} << 28U;

  /// Throws as Watch::look.
  void wait(const HostBoard::Counter& counter, std::uint32_t target, std::int64_t peer,
            const char* operation) const;
  void allocate(std::size_t bytes);
  /// Whether this process has the workspaces of all others open.
  bool open_all();

  ProcessGroup& processes_;
  const Pulses& pulses_;
  std::unique_ptr<HostBoard> board_;
  ReleaseAgreement release_;
  std::optional<SharedMemory> own_;
  std::size_t own_bytes_ = 0;
  bool shares_ = true;
  std::vector<std::unique_ptr<SharedMemory>> opened_;  // of each other rank; null if not open
  std::uint32_t first_ = 0;
  std::size_t windows_made_ = 0;
};

}  // namespace shardsolve::comm
