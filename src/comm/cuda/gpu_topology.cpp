#include "comm/cuda/gpu_topology.hpp"

#include "runtime/cuda/cuda_device.hpp"
#include "runtime/cuda/cuda_queue.hpp"
#include "runtime/pulse.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

namespace shardsolve::comm::cuda {
namespace {

using runtime::cuda::check;
using runtime::cuda::CudaEvent;
using runtime::cuda::CudaQueue;
using runtime::cuda::CurrentDevice;

bool can_access(int reader, int owner) {
  int possible = 0;
  check(cudaDeviceCanAccessPeer(&possible, reader, owner), "asking for peer access");
  return possible != 0;
}

/// Whether `reader` now reads the memory of `owner` by itself.
bool enable(int reader, int owner) {
  if (!can_access(reader, owner)) {
    return false;
  }
  const CurrentDevice scope(reader);
  const cudaError_t status = cudaDeviceEnablePeerAccess(owner, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled || status == cudaErrorTooManyPeers) {
    cudaGetLastError();
    return status == cudaErrorPeerAccessAlreadyEnabled;
  }
  check(status, "enabling peer access");
  return true;
}

/// 0 where the driver does not say: copies work without.
int attribute(cudaDeviceP2PAttr which, int reader, int owner) {
  int value = 0;
  if (cudaDeviceGetP2PAttribute(&value, which, reader, owner) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return value;
}

PeerAccess access(int owner, int reader, bool connects) {
  if (owner == reader) {
    return {.same_gpu = true};
  }
  if (!(connects ? enable(reader, owner) : can_access(reader, owner))) {
    return {};
  }
  return {.possible = true,
          .native_atomics = attribute(cudaDevP2PAttrNativeAtomicSupported, reader, owner) != 0,
          .performance_rank = attribute(cudaDevP2PAttrPerformanceRank, reader, owner)};
}

Topology read_topology(const std::vector<int>& gpus, bool connects) {
  std::vector<std::vector<PeerAccess>> accesses;
  for (const int owner : gpus) {
    accesses.emplace_back();
    for (const int reader : gpus) {
      accesses.back().push_back(access(owner, reader, connects));
    }
  }
  return topology_of_gpus(accesses);
}

/// A GPU with memory to copy from and to, and the stream to copy on.
struct Bench {
  static constexpr std::size_t bytes = std::size_t{64} << 20U;

  explicit Bench(int gpu)
      : device(gpu, pulse, std::nullopt),
        source(device.allocate(bytes)),
        target(device.allocate(bytes)),
        queue("measure", pulse, runtime::cuda::QueueOptions{.device = gpu}) {}

  runtime::Pulse pulse;
  runtime::cuda::CudaDevice device;
  runtime::Buffer source;
  runtime::Buffer target;
  CudaQueue queue;
};

/// GB/s of copies from `owner` to `reader`, enqueued there as windows do.
double bandwidth(const Bench& owner, Bench& reader, const char* link) {
  constexpr int runs = 3;
  constexpr int copies = 4;
  const auto copy = [&] {
    reader.queue.move("measure", link, reader.target.data(), owner.source.data(), Bench::bytes);
  };
  copy();  // the first one may have things to set up
  float least = std::numeric_limits<float>::max();
  for (int run = 0; run < runs; ++run) {
    CudaEvent begin(true);
    CudaEvent end(true);
    reader.queue.record(begin);
    for (int i = 0; i < copies; ++i) {
      copy();
    }
    reader.queue.record(end);
    reader.queue.synchronize();
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "reading a time");
    least = std::min(least, milliseconds);
  }
  return copies * static_cast<double>(Bench::bytes) / (static_cast<double>(least) * 1e6);
}

}  // namespace

Topology connect_gpus(const std::vector<int>& gpus) { return read_topology(gpus, true); }

Topology look_at_gpus(const std::vector<int>& gpus) { return read_topology(gpus, false); }

Topology measure_gpus(const std::vector<int>& gpus) {
  Topology topology = connect_gpus(gpus);
  std::vector<std::unique_ptr<Bench>> benches;
  benches.reserve(gpus.size());
  for (const int gpu : gpus) {
    const CurrentDevice scope(gpu);
    benches.push_back(std::make_unique<Bench>(gpu));
  }
  for (std::int64_t to = 0; to < topology.ranks(); ++to) {
    const auto reader = static_cast<std::size_t>(to);
    const CurrentDevice scope(gpus[reader]);
    for (std::int64_t from = 0; from < topology.ranks(); ++from) {
      const LinkKind kind = topology.link(from, to).kind;
      topology.set_link(from, to,
                        {kind, bandwidth(*benches[static_cast<std::size_t>(from)], *benches[reader],
                                         name(kind))});
    }
  }
  return topology;
}

}  // namespace shardsolve::comm::cuda
