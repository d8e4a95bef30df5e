#include "comm/cuda/ipc_trial.hpp"

#include "comm/cuda/ipc_memory.hpp"
#include "comm/shared_memory.hpp"
#include "comm/tell_all.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/cuda/driver.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::comm::cuda {
namespace {

using runtime::cuda::check;

/// What `body` has failed with; empty if it has not.
template <class Body>
std::string failure_of(Body body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// A piece of memory of this GPU with a number in it.
class Sample {
 public:
  static constexpr std::size_t size = std::size_t{2} << 20U;

  explicit Sample(std::int64_t value) {
    check(cudaMalloc(&memory_, size), "allocating memory");
    check(cudaMemcpy(memory_, &value, sizeof value, cudaMemcpyHostToDevice), "a copy");
    // A copy from ordinary memory returns when that may be written to again. Who reads the number
    // in another process does not wait for this one's stream.
    check(cudaStreamSynchronize(nullptr), "waiting for a copy");
  }
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;
  ~Sample() { cudaFree(memory_); }

  Bytes bytes() const { return {memory_, size}; }

 private:
  void* memory_ = nullptr;
};

/// Throws if a stream of this GPU does not write to the board and wait for what is there.
void try_marks(const IpcBoard& board, std::size_t rank) {
  IpcBoard::Slot& slot = board.ready(rank, rank);  // a channel that nobody uses
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  const std::string failure = failure_of([&] {
    runtime::cuda::write_value(stream, board.for_gpus(slot), 1);
    runtime::cuda::wait_for_value(stream, board.for_gpus(slot), 1);
    check(cudaStreamSynchronize(stream), "waiting for a mark");
  });
  cudaStreamDestroy(stream);
  if (!failure.empty() || std::atomic_ref(slot.passed).load() != 1) {
    throw Error(ErrorKind::device,
                failure.empty() ? "a mark of the GPU does not reach the host" : failure);
  }
}

/// Throws if the sample of a rank does not hold its number. Read by a copy between GPUs.
void read_sample(IpcImports& imports, const IpcPlace& place, const Sample& own, std::int64_t rank) {
  const Bytes theirs = imports.open(place);
  std::byte* room = static_cast<std::byte*>(own.bytes().data) + Sample::size / 2;
  std::int64_t value = -1;
  check(cudaMemcpy(room, theirs.data, sizeof value, cudaMemcpyDefault), "a copy between processes");
  check(cudaMemcpy(&value, room, sizeof value, cudaMemcpyDeviceToHost), "a copy");
  if (value != rank) {
    throw Error(ErrorKind::device, fmt::format("memory of rank {} holds {}", rank, value));
  }
}

std::string as_text(const IpcPlace& place) {
  return {reinterpret_cast<const char*>(&place), sizeof place};
}

}  // namespace

IpcTrial try_ipc(Transport& transport) {
  const std::int64_t rank = transport.rank();
  const auto ranks = static_cast<std::size_t>(transport.ranks());
  const std::size_t bytes = IpcBoard::bytes(ranks);

  // Rank 0 makes the board, the others open it.
  std::unique_ptr<IpcBoard> board;
  std::string failure = failure_of([&] {
    if (rank == 0) {
      board = std::make_unique<IpcBoard>(SharedMemory(bytes), ranks, true);
    }
  });
  const std::string ticket = tell_all(transport, board ? board->ticket() : "").front();
  if (failure.empty()) {
    failure = failure_of([&] {
      if (rank != 0) {
        board = std::make_unique<IpcBoard>(SharedMemory(ticket, bytes), ranks, false);
      }
      try_marks(*board, static_cast<std::size_t>(rank));
    });
  }
  failure = first_said(transport, failure);
  if (!failure.empty()) {
    return {nullptr, failure};
  }
  board->withdraw();

  // Each reads from each. Nobody frees his memory before all have closed it.
  std::optional<Sample> sample;
  IpcPlace own;
  failure = failure_of([&] { own = export_memory(sample.emplace(rank).bytes()); });
  const std::vector<std::string> places = tell_all(transport, as_text(own));
  IpcImports imports;
  for (std::size_t r = 0; r < ranks && failure.empty(); ++r) {
    if (static_cast<std::int64_t>(r) != rank) {
      failure = failure_of([&] {
        IpcPlace place;
        std::memcpy(&place, places[r].data(), sizeof place);
        if (place.size > 0) {  // else it has failed there
          read_sample(imports, place, *sample, static_cast<std::int64_t>(r));
        }
      });
    }
  }
  imports.close();
  failure = first_said(transport, failure);
  return failure.empty() ? IpcTrial{std::move(board), ""} : IpcTrial{nullptr, failure};
}

}  // namespace shardsolve::comm::cuda
