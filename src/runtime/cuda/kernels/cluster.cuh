/// Blocks that run at the same time and write to each other's shared memory: a cluster, on GPUs
/// that have them (compute capability 9.0 and later). Elsewhere a cluster is one block.
#pragma once

#include "runtime/cuda/kernels/launch.cuh"
#include "runtime/cuda/kernels/scalar.cuh"

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

namespace shardsolve::runtime::cuda {

/// The most blocks that every GPU with clusters takes in one.
inline constexpr int max_ranks = 8;

namespace detail {
inline __device__ std::uint32_t address_in_rank(const void* place, int rank) {
  std::uint32_t there = 0;
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(place)), "r"(rank));
#endif
  return there;
}

/// The bytes of a number as words.
template <class Word, class E>
struct Words {
  Word word[sizeof(E) / sizeof(Word)];
};
template <class Word, class E>
__device__ Words<Word, E> words_in(const E& number) {
  Words<Word, E> words;
  memcpy(&words, &number, sizeof(E));
  return words;
}
}  // namespace detail

/// A place in the cluster.
class Cluster {
 public:
  static __device__ int rank() {
    unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return static_cast<int>(rank);
  }

  /// The address of what lies where `place` is, in the shared memory of that rank.
  template <class E>
  static __device__ E* in_rank(E* place, int rank) {
#if __CUDA_ARCH__ >= 900
    E* there = nullptr;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(place), "r"(rank));
    return there;
#else
    return place;
#endif
  }

  /// A barrier for all threads of all blocks; what they wrote before it is seen behind it.
  static __device__ void sync() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
#else
    __syncthreads();
#endif
  }
};

/// Mail that some block of the cluster has sent all of, into the shared memory where this lies. For
/// one message: a block sets up as many as it will receive, and Cluster::sync() comes before the
/// first is sent.
class Arrival {
 public:
  /// Called by one thread: the message consists of so many elements of so many bytes.
  __device__ void expect(int elements, int bytes) {
    [[maybe_unused]] const std::uint32_t state = shared_address(&state_);
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], 1;\n\t"
        "fence.mbarrier_init.release.cluster;\n\t"
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(state),
        "r"(elements * bytes)
        : "memory");
#elif __CUDA_ARCH__ >= 800
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(state), "r"(elements) : "memory");
#else
    awaited_ = static_cast<unsigned>(elements);
#endif
  }

  /// Sends one element to where `to` is in that rank, for the arrival that is there where this is
  /// here.
  template <class E>
  __device__ void send(E element, E* to, int rank) {
#if __CUDA_ARCH__ >= 900
    const std::uint32_t place = detail::address_in_rank(to, rank);
    const std::uint32_t state = detail::address_in_rank(&state_, rank);
    if constexpr (std::is_same_v<E, float>) {
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(place),
          "f"(element), "r"(state)
          : "memory");
    } else if constexpr (std::is_same_v<E, double>) {
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.f64 [%0], %1, [%2];" ::"r"(place),
          "d"(element), "r"(state)
          : "memory");
    } else if constexpr (std::is_same_v<RealPart<E>, float>) {
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::
              "r"(place),
          "f"(element.re), "f"(element.im), "r"(state)
          : "memory");
    } else {
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f64 [%0], {%1, %2}, [%3];" ::
              "r"(place),
          "d"(element.re), "d"(element.im), "r"(state)
          : "memory");
    }
#elif __CUDA_ARCH__ >= 800
    *to = element;
    asm volatile(
        "{\n\t"
        ".reg .b64 token;\n\t"
        "mbarrier.arrive.shared.b64 token, [%0];\n\t"
        "}" ::"r"(shared_address(&state_))
        : "memory");
#else
    *to = element;
    __threadfence_block();
    atomicSub(&awaited_, 1U);
#endif
  }

  /// Until all of the message is there.
  __device__ void wait() const {
#if __CUDA_ARCH__ >= 800
    std::uint32_t arrived = 0;
    while (arrived == 0) {
#if __CUDA_ARCH__ >= 900
      asm volatile(
          "{\n\t"
          ".reg .pred arrived;\n\t"
          "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 arrived, [%1], 0;\n\t"
          "selp.u32 %0, 1, 0, arrived;\n\t"
          "}"
          : "=r"(arrived)
          : "r"(shared_address(&state_))
          : "memory");
#else
      asm volatile(
          "{\n\t"
          ".reg .pred arrived;\n\t"
          "mbarrier.test_wait.parity.shared.b64 arrived, [%1], 0;\n\t"
          "selp.u32 %0, 1, 0, arrived;\n\t"
          "}"
          : "=r"(arrived)
          : "r"(shared_address(&state_))
          : "memory");
#endif
    }
#else
    while (*static_cast<const volatile unsigned*>(&awaited_) != 0) {
    }
    __threadfence_block();
#endif
  }

 private:
  union {
    std::uint64_t state_;  ///< as PTX's mbarrier has it, from sm_80 on
    unsigned awaited_;     ///< elements that have not come, before
  };
};

/// Where a block gets messages from blocks of its cluster, one after the other; a message may come
/// from several. Blocks that run clusters alone have it: sm_90 and later.
class Mailbox {
 public:
  /// By one thread; Cluster::sync() comes before anything is sent. So many threads have to arrive
  /// for each message.
  __device__ void begin(int arrivals) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], %1;\n\t"
        "fence.mbarrier_init.release.cluster;" ::"r"(shared_address(&state_)),
        "r"(arrivals)
        : "memory");
#endif
  }
  /// The message has so many bytes, and those that other threads say. What this thread has written
  /// to shared memory before is seen by those of its block that wait.
  __device__ void arrive_and_expect(int bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&state_)),
        "r"(bytes)
        : "memory");
#endif
  }
  /// Sends a number of 4, 8 or 16 bytes to where `to` is in that rank, for the mailbox that is
  /// there where this is here.
  template <class E>
  __device__ void send(E number, E* to, int rank) {
#if __CUDA_ARCH__ >= 900
    const std::uint32_t place = detail::address_in_rank(to, rank);
    const std::uint32_t state = detail::address_in_rank(&state_, rank);
    if constexpr (sizeof(E) == 4) {
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(place),
          "r"(detail::words_in<std::uint32_t>(number).word[0]), "r"(state)
          : "memory");
    } else if constexpr (sizeof(E) == 8) {
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(place),
          "l"(detail::words_in<std::uint64_t>(number).word[0]), "r"(state)
          : "memory");
    } else {
      const auto words = detail::words_in<std::uint64_t>(number);
      asm volatile(
          "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b64 [%0], {%1, %2}, [%3];" ::
              "r"(place),
          "l"(words.word[0]), "l"(words.word[1]), "r"(state)
          : "memory");
    }
#endif
  }
  /// Until the message is there: the first one is even, the next one odd, and so on.
  __device__ void wait(bool odd) const {
#if __CUDA_ARCH__ >= 900
    std::uint32_t arrived = 0;
    while (arrived == 0) {
      asm volatile(
          "{\n\t"
          ".reg .pred arrived;\n\t"
          "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 arrived, [%1], %2;\n\t"
          "selp.u32 %0, 1, 0, arrived;\n\t"
          "}"
          : "=r"(arrived)
          : "r"(shared_address(&state_)), "r"(static_cast<std::uint32_t>(odd))
          : "memory");
    }
#endif
  }

 private:
  std::uint64_t state_;
};

/// A barrier for so many threads of the block, whole warps. `number` is 1 to 15.
inline __device__ void sync_some(int number, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

namespace detail {
inline cudaLaunchAttribute clusters_of(int ranks) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(ranks), 1, 1};
  return cluster;
}
}  // namespace detail

/// Whether the blocks of the kernel can be in clusters on the current device.
template <class... Parameters>
bool runs_clusters(void (*kernel)(Parameters...)) {
  return device_attribute(cudaDevAttrClusterLaunch) != 0 && is_for_sm_90(kernel);
}

/// Enqueues `kernel` with so many clusters of so many blocks.
template <class... Parameters, class... Arguments>
void launch_clusters(cudaStream_t stream, void (*kernel)(Parameters...), int clusters, int ranks,
                     Block block, const Arguments&... arguments) {
  if (ranks == 1) {
    launch(stream, kernel, clusters, block, arguments...);
    return;
  }
  launch_with(detail::clusters_of(ranks), stream, kernel, std::int64_t{clusters} * ranks, block,
              arguments...);
}

/// Clusters of so many blocks that are on the current GPU at the same time; 0 if none fits.
template <class... Parameters>
int resident_clusters(void (*kernel)(Parameters...), int ranks, Block block) {
  int clusters = 0;
  if (ranks == 1) {
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &clusters, kernel, static_cast<int>(block.threads.x), block.shared_bytes);
    clusters *= device_attribute(cudaDevAttrMultiProcessorCount);
  } else {
    cudaLaunchAttribute attributes[] = {detail::clusters_of(ranks)};
    cudaLaunchConfig_t config = config_of(nullptr, ranks, block);
    config.attrs = attributes;
    config.numAttrs = 1;
    cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
  }
  cudaGetLastError();  // too little shared memory is no error here
  return clusters;
}

/// Whether one cluster of so many blocks, which may be more than max_ranks, fits the current
/// device; from here on it may be launched. Cheap, so it is asked before every launch.
template <class... Parameters>
bool fits_cluster(void (*kernel)(Parameters...), int ranks, Block block) {
  if (!runs_clusters(kernel)) {
    return false;
  }
  allow_shared(kernel, block.shared_bytes);
  if (ranks > max_ranks) {
    cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                         cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  }
  return resident_clusters(kernel, ranks, block) > 0;
}

}  // namespace shardsolve::runtime::cuda
