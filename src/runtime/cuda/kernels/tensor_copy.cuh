/// Boxes of a matrix that the hardware copies to shared memory, from sm_90 on. CUDA calls this the
/// tensor memory accelerator.
#pragma once

#include "runtime/cuda/kernels/launch.cuh"

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace shardsolve::runtime::cuda {

/// A barrier in shared memory whose phases end when so many have arrived and all bytes are there
/// that were expected. PTX: mbarrier.
class CopyBarrier {
 public:
  __device__ void init(int arrivals) {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&state_)),
                 "r"(arrivals)
                 : "memory");
#endif
  }
  __device__ void arrive() {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&state_))
                 : "memory");
#endif
  }
  /// Arrives, and has the phase last until so many bytes are there.
  __device__ void arrive_and_expect(int bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&state_)),
        "r"(bytes)
        : "memory");
#endif
  }
  /// Until the phase has ended; phases are even and odd in turn.
  __device__ void wait(bool odd) const {
#if __CUDA_ARCH__ >= 900
    std::uint32_t ended = 0;
    while (ended == 0) {
      asm volatile(
          "{\n\t"
          ".reg .pred ended;\n\t"
          "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n\t"
          "selp.u32 %0, 1, 0, ended;\n\t"
          "}"
          : "=r"(ended)
          : "r"(shared_address(&state_)), "r"(static_cast<std::uint32_t>(odd))
          : "memory");
    }
#endif
  }
  /// What init() wrote is seen by the copies from here on.
  static __device__ void publish() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }

  /// Begins a copy of the box at (row, column), which arrives here.
  __device__ void fetch(void* target, const CUtensorMap& matrix, int row, int column) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%2, %3}], [%4];" ::"r"(shared_address(target)),
        "l"(&matrix), "r"(row), "r"(column), "r"(shared_address(&state_))
        : "memory");
#endif
  }

 private:
  std::uint64_t state_;
};

}  // namespace shardsolve::runtime::cuda
