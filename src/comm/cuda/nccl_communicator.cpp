#include "comm/cuda/nccl_communicator.hpp"

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/cuda_queue.hpp"

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

namespace shardsolve::comm::cuda {
namespace {

using runtime::cuda::as_cuda;

}  // namespace

/// The queues are idle. Not ncclCommDestroy, which waits for the others to call it too.
NcclCommunicator::~NcclCommunicator() {
  if (comm_ != nullptr) {
    nccl().abort(comm_);
  }
}

/// NCCL takes it round a ring of its own: for traces it goes from the root to each.
void NcclCommunicator::broadcast(runtime::Queue& queue, Bytes data, std::int64_t root) {
  launch(queue, "broadcast", pieces_of_broadcast(data, root), [&] {
    const std::lock_guard lock(mutex_);
    if (given_up_) {
      throw runtime::Abandoned{};
    }
    nccl().check(nccl().broadcast(data.data, data.data, data.size, NcclLibrary::bytes_type,
                                  static_cast<int>(root), comm_, as_cuda(queue).stream()),
                 "enqueuing a broadcast");
  });
}

void NcclCommunicator::enqueue(runtime::Queue& queue, const char* operation, Pieces pieces) {
  launch(queue, operation, pieces,
         [&] { exchange(as_cuda(queue).stream(), operation, pieces.send, pieces.receive); });
}

template <class Enqueue>
void NcclCommunicator::launch(runtime::Queue& queue, const char* operation, const Pieces& pieces,
                              Enqueue enqueue) {
  connect(queue);
  runtime::WorkInfo info{.name = operation};
  bool any = false;
  for (std::int64_t peer = 0; peer < ranks(); ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    if (peer == rank()) {
      continue;
    }
    const std::size_t incoming = pieces.receive[at].size;
    any = any || pieces.send[at].size > 0 || incoming > 0;
    if (incoming > 0) {
      info.bytes += static_cast<double>(incoming);
      info.link = link(peer);
    }
  }
  if (any) {
    as_cuda(queue).launch(info, enqueue,
                          as_cuda(queue).tracing() ? trace(pieces) : std::vector<TraceMessage>{});
  }
}

void NcclCommunicator::exchange(cudaStream_t stream, const char* operation,
                                const std::vector<Bytes>& send, const std::vector<Bytes>& receive) {
  const std::lock_guard lock(mutex_);
  if (given_up_) {
    throw runtime::Abandoned{};
  }
  int result = nccl().group_start();
  for (std::int64_t peer = 0; peer < ranks() && result == 0; ++peer) {
    if (peer == rank()) {
      continue;
    }
    const Bytes& out = send[static_cast<std::size_t>(peer)];
    const Bytes& in = receive[static_cast<std::size_t>(peer)];
    const int number = static_cast<int>(peer);
    if (out.size > 0) {
      result = nccl().send(out.data, out.size, NcclLibrary::bytes_type, number, comm_, stream);
    }
    if (in.size > 0 && result == 0) {
      result = nccl().receive(in.data, in.size, NcclLibrary::bytes_type, number, comm_, stream);
    }
  }
  const int end = nccl().group_end();
  nccl().check(result != 0 ? result : end, operation);
}

void NcclCommunicator::connect(runtime::Queue& queue) {
  if (comm_ != nullptr || ranks() == 1) {
    return;
  }
  OwnedNcclComm comm = join(agree_on_id());
  {
    const std::lock_guard lock(mutex_);
    if (given_up_) {
      throw runtime::Abandoned{};
    }
    comm_ = comm.release();
    runtime::cuda::check(cudaGetDevice(&device_), "asking for the current GPU");
  }
  send_to_each(as_cuda(queue).stream());
}

/// It travels between the processes, where a rank that has left is noticed.
NcclUniqueId NcclCommunicator::agree_on_id() {
  const auto id = std::make_shared<NcclUniqueId>();  // a message on its way outlives this call
  auto send = nothing();
  auto receive = nothing();
  if (rank() == 0) {
    nccl().check(nccl().get_unique_id(id.get()), "asking for a number to meet by");
    send.assign(send.size(), {id.get(), sizeof *id});
    send[0] = {};
  } else {
    receive[0] = {id.get(), sizeof *id};
  }
  processes_.exchange("connect", send, receive, id);
  return *id;
}

/// NCCL waits for all ranks for as long as it takes, so a thread of its own does that. This one
/// shows life meanwhile, but not for ever, and leaves if the call fails: if the connection is made
/// after all, the last to have the task aborts it.
OwnedNcclComm NcclCommunicator::join(const NcclUniqueId& id) {
  constexpr std::chrono::seconds patience(60);
  int device = 0;
  runtime::cuda::check(cudaGetDevice(&device), "asking for the current GPU");
  auto task = std::make_shared<std::packaged_task<OwnedNcclComm()>>(
      [id, device, ranks = static_cast<int>(ranks()), rank = static_cast<int>(rank())] {
        runtime::cuda::check(cudaSetDevice(device), "choosing a GPU");
        NcclComm comm = nullptr;
        nccl().check(nccl().init_rank(&comm, ranks, id, rank), "connecting the ranks");
        return OwnedNcclComm(comm);
      });
  std::future<OwnedNcclComm> joined = task->get_future();
  std::thread([task = std::move(task)] { (*task)(); }).detach();
  const auto begin = std::chrono::steady_clock::now();
  while (joined.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready) {
    if (pulse_.failed()) {
      throw runtime::Abandoned{};
    }
    if (std::chrono::steady_clock::now() - begin < patience) {
      pulse_.beat("connect", pulse_.step());
    }
  }
  return joined.get();
}

/// Later operations then have nothing to set up, so enqueuing them does not wait for other ranks.
void NcclCommunicator::send_to_each(cudaStream_t stream) {
  constexpr std::size_t piece = 1024;
  void* room = nullptr;
  const std::size_t size = 2 * static_cast<std::size_t>(ranks()) * piece;
  runtime::cuda::check(cudaMalloc(&room, size), "allocating memory for NCCL");
  const std::shared_ptr<void> owner(room, [](void* memory) { cudaFree(memory); });
  auto send = nothing();
  auto receive = nothing();
  for (std::size_t peer = 0; peer < send.size(); ++peer) {
    send[peer] = {static_cast<std::byte*>(room) + 2 * peer * piece, piece};
    receive[peer] = {static_cast<std::byte*>(room) + (2 * peer + 1) * piece, piece};
  }
  exchange(stream, "connecting each rank to each", send, receive);
  {
    const std::lock_guard lock(mutex_);
    if (given_up_) {
      throw runtime::Abandoned{};
    }
    nccl().check(nccl().broadcast(room, room, piece, NcclLibrary::bytes_type, 0, comm_, stream),
                 "connecting the ranks in a ring");
  }
  runtime::cuda::check(cudaStreamSynchronize(stream), "connecting the ranks");
}

/// Whoever holds the mutex for long waits within NCCL for other ranks, and cannot be helped: the
/// mesh then finds that this rank does not come back. Called again and again: it waits once.
void NcclCommunicator::give_up() {
  const bool again = given_up_.exchange(true);
  if (mutex_.try_lock_for(again ? std::chrono::seconds(0) : std::chrono::seconds(1))) {
    const std::lock_guard lock(mutex_, std::adopt_lock);
    if (comm_ != nullptr) {
      cudaSetDevice(device_);  // of this thread, which may be any
      nccl().abort(std::exchange(comm_, nullptr));
    }
  }
}

}  // namespace shardsolve::comm::cuda
