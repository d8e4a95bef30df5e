/// GPUs of several processes of one machine.
#pragma once

#include "comm/cuda/ipc_board.hpp"
#include "comm/cuda/ipc_memory.hpp"
#include "comm/cuda/peer_group.hpp"
#include "comm/process_group.hpp"
#include "comm/release_agreement.hpp"
#include "runtime/workspace.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace shardsolve::comm::cuda {

/// Ranks are processes. Marks are numbers that the GPUs write to the board and wait for there.
///
/// Memory is opened when it is used first. Each rank's workspace, one allocation that this group
/// makes, stays open from call to call, until all ranks agree that it is freed. A rank closes all
/// other memory when it has nothing left to do in the call. So nobody frees what another has open.
///
/// Counts only go up: each call counts in a range of numbers of its own, ahead of those of earlier
/// calls. So no process has to wait until another has set its counts back.
class IpcPeers final : public PeerGroup {
 public:
  /// `allocate`: memory of this process's GPU.
  IpcPeers(ProcessGroup& processes, const Pulses& pulses, const Topology& topology, Ring ring,
           std::unique_ptr<IpcBoard> board, runtime::Allocate allocate);
  /// Waits for the others to leave their meshes, for a second at most. Memory that somebody may
  /// have open then stays until the process ends.
  ~IpcPeers() override;
  IpcPeers(const IpcPeers&) = delete;
  IpcPeers& operator=(const IpcPeers&) = delete;

  void offer(std::int64_t from, std::int64_t to, Bytes piece) override;
  Bytes offered(std::int64_t from, std::int64_t to) override;
  Bytes make_workspace(std::int64_t rank, std::size_t bytes) override;
  Bytes workspace() const override;
  std::uint32_t first() const override { return first_; }
  void begin_call(std::int64_t rank) override;
  void end_call() override;
  void give_up() override;

 private:
  class IpcMarks;
  class IpcWindow;
  static constexpr std::uint32_t numbers_of_a_call = std::uint32_t{1} << 20U;

  std::unique_ptr<Window> make_window(std::size_t index) override;
  void wait(const runtime::host::OneWayCounter& counter, std::uint32_t target, std::int64_t self,
            std::int64_t peer, const char* operation) const override;

  bool lost(std::size_t rank) const { return processes_.lost(static_cast<std::int64_t>(rank)); }
  /// Where a piece of this rank lies, for others.
  IpcPlace place_of(Bytes piece) const;

  ProcessGroup& processes_;
  std::unique_ptr<IpcBoard> board_;
  runtime::Allocate allocate_;
  ReleaseAgreement release_;
  std::optional<runtime::Buffer> workspace_;
  IpcPlace place_;  // of the workspace
  IpcImports imports_;
  std::uint32_t first_ = 0;
};

}  // namespace shardsolve::comm::cuda
