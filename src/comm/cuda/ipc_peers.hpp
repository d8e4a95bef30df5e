/// GPUs of several processes of one machine.
#pragma once

#include "comm/cuda/ipc_board.hpp"
#include "comm/cuda/ipc_memory.hpp"
#include "comm/cuda/peer_group.hpp"
#include "comm/process_group.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace shardsolve::comm::cuda {

/// Ranks are processes. Memory is opened when it is used first in a call, and closed when its rank
/// has nothing left to do in that call; nobody frees his before all have. Marks are numbers that
/// the GPUs write to the board and wait for there.
///
/// Counts go on from call to call, each of which has so many numbers of its own: what is left of
/// the last one lies behind, and no process has to wait for another to have set its counts back.
class IpcPeers final : public PeerGroup {
 public:
  IpcPeers(ProcessGroup& processes, InProcessGroup& host, const Topology& topology, Ring ring,
           std::unique_ptr<IpcBoard> board);

  void offer(std::int64_t from, std::int64_t to, Bytes piece) override;
  Bytes offered(std::int64_t from, std::int64_t to) override;
  std::uint32_t first() const override { return first_; }
  void begin_call(std::int64_t rank) override;
  void end_call() override { imports_.close(); }
  void give_up() override;

 private:
  class IpcMarks;
  class IpcWindow;
  static constexpr std::uint32_t numbers_of_a_call = std::uint32_t{1} << 20U;

  std::unique_ptr<Window> make_window(std::size_t index) override;
  void wait(const runtime::host::OneWayCounter& counter, std::uint32_t target, std::int64_t self,
            std::int64_t peer, const char* operation) const override;

  ProcessGroup& processes_;
  std::unique_ptr<IpcBoard> board_;
  IpcImports imports_;
  std::uint32_t first_ = 0;
};

}  // namespace shardsolve::comm::cuda
