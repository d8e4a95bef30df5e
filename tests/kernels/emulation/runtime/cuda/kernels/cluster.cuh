/// Stands in for src/runtime/cuda/kernels/cluster.cuh: see emulator.hpp. All blocks are one
/// cluster.
#pragma once

#include "runtime/cuda/kernels/launch.cuh"

#include <cstdint>
#include <cstring>

namespace shardsolve::runtime::cuda {

/// For tests of what there is without clusters.
inline int& largest_cluster() {
  thread_local int blocks = SHARDSOLVE_EMULATED_GPU >= 900 ? 16 : 0;
  return blocks;
}

class Cluster {
 public:
  static int rank() { return static_cast<int>(blockIdx.x); }
  static void sync() { emulation::meet_all_blocks(); }
};

/// What is sent is there at once.
class Mailbox {
 public:
  void begin(int arrivals) { *this = Mailbox(arrivals); }
  void arrive_and_expect(int bytes) {
    awaited_ += bytes;
    --missing_;
    end_if_all_is_there();
  }
  template <class E>
  void send(E number, E* to, int rank) {
    std::memcpy(emulation::in_block(to, rank), &number, sizeof(E));
    auto* const there = static_cast<Mailbox*>(emulation::in_block(this, rank));
    there->awaited_ -= static_cast<std::int64_t>(sizeof(E));
    there->end_if_all_is_there();
  }
  void wait(bool odd) const {
    while ((ended_ % 2 != 0) == odd) {
      emulation::give_way(true);
    }
  }

 private:
  explicit Mailbox(int arrivals) : arrivals_(arrivals), missing_(arrivals) {}
  void end_if_all_is_there() {
    if (missing_ == 0 && awaited_ == 0) {
      ++ended_;
      missing_ = arrivals_;
    }
  }

  int arrivals_;
  int missing_;
  std::int64_t awaited_ = 0;  ///< bytes; below 0 if they come before they are expected
  std::int64_t ended_ = 0;
};

template <class... Parameters>
bool fits_cluster(void (*)(Parameters...), int ranks, Block /*block*/) {
  return ranks <= largest_cluster();
}
template <class... Parameters, class... Arguments>
void launch_clusters(cudaStream_t stream, void (*kernel)(Parameters...), int /*clusters*/,
                     int ranks, Block block, const Arguments&... arguments) {
  launch(stream, kernel, ranks, block, arguments...);
}

}  // namespace shardsolve::runtime::cuda
