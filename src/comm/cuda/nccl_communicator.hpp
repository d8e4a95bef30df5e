/// Communication between GPUs of several processes by NCCL.
#pragma once

#include "comm/copy_window.hpp"
#include "comm/cuda/nccl_library.hpp"
#include "comm/exchange_communicator.hpp"
#include "comm/process_group.hpp"
#include "comm/topology.hpp"
#include "runtime/pulse.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace shardsolve::comm::cuda {

/// The end of the one rank of this process. NCCL's kernels move the data, and wait on the GPUs for
/// those of other ranks; a call that fails takes them away, and the next call connects anew.
class NcclCommunicator final : public ExchangeCommunicator {
 public:
  /// `topology`: what traces say that data goes over.
  NcclCommunicator(ProcessGroup& processes, runtime::Pulse& pulse, Topology topology)
      : ExchangeCommunicator(processes.ranks(), processes.rank()),
        processes_(processes),
        pulse_(pulse),
        topology_(std::move(topology)) {}
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator() override;

  void broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) override;
  std::unique_ptr<Window> make_window(Bytes memory) override {
    return std::make_unique<CopyWindow>(*this, rank(), memory);
  }
  void begin_call() override {
    given_up_ = false;
    ExchangeCommunicator::begin_call();
  }
  void give_up() override;

 private:
  const char* link(std::int64_t from) const { return name(topology_.link(from, rank()).kind); }

  /// The first operation of a call that has no connection makes one: all ranks come to it.
  void connect(runtime::Queue& queue);
  NcclUniqueId agree_on_id();
  OwnedNcclComm join(const NcclUniqueId& id);
  void send_to_each(cudaStream_t stream);
  void enqueue(runtime::Queue& queue, const char* operation, Pieces pieces) override;
  /// enqueue() as one piece of work, unless nothing goes anywhere.
  template <class Enqueue>
  void launch(runtime::Queue& queue, const char* operation, const Pieces& pieces, Enqueue enqueue);
  void exchange(cudaStream_t stream, const char* operation, const std::vector<Bytes>& send,
                const std::vector<Bytes>& receive);

  ProcessGroup& processes_;
  runtime::Pulse& pulse_;
  Topology topology_;
  std::atomic<bool> given_up_ = false;
  std::timed_mutex mutex_;  // held while NCCL is called
  NcclComm comm_ = nullptr;
  int device_ = 0;  // of the connection
};

}  // namespace shardsolve::comm::cuda
