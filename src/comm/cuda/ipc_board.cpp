#include "comm/cuda/ipc_board.hpp"

#include "runtime/cuda/check.hpp"

#include <new>

namespace shardsolve::comm::cuda {

IpcBoard::Table::Table(std::size_t ranks) {
  std::size_t used = SharedMemory::reserved;
  const auto take = [&](std::size_t count, std::size_t size) {
    return std::exchange(used, used + count * size);
  };
  const std::size_t pairs = ranks * ranks;
  ready = take(pairs, sizeof(Slot));
  delivered = take(pairs, sizeof(Slot));
  joined = take(max_windows * ranks, sizeof(Slot));
  arrivals = take(max_windows * pairs, sizeof(Slot));
  words = take(ranks, sizeof(ReleaseAgreement::Word));
  pieces = take(pairs, sizeof(IpcPlace));
  memories = take(max_windows * ranks, sizeof(IpcPlace));
  end = used;
}

IpcBoard::IpcBoard(SharedMemory memory, std::size_t ranks, bool makes)
    : memory_(std::move(memory)), ranks_(ranks), table_(ranks) {
  if (makes) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for_each_slot_of(rank, [](Slot& slot) { new (&slot) Slot; });
    }
    for (ReleaseAgreement::Word& word : words()) {
      new (&word) ReleaseAgreement::Word;
    }
  }
  runtime::cuda::check(cudaHostRegister(memory_.data(), memory_.size(),
                                        cudaHostRegisterPortable | cudaHostRegisterMapped),
                       "showing shared memory to a GPU");
  void* base = nullptr;
  const cudaError_t status = cudaHostGetDevicePointer(&base, memory_.data(), 0);
  if (status != cudaSuccess) {
    cudaHostUnregister(memory_.data());
    runtime::cuda::check(status, "showing shared memory to a GPU");
  }
  gpu_base_ = static_cast<std::byte*>(base);
}

IpcBoard::~IpcBoard() {
  cudaHostUnregister(memory_.data());
  cudaGetLastError();
}

}  // namespace shardsolve::comm::cuda
