#include "mesh/cuda/cuda_backend.hpp"

#include "comm/cuda/gpu_topology.hpp"
#include "comm/cuda/peer_communicator.hpp"
#include "comm/ring.hpp"
#include "core/plugin_version.hpp"
#include "core/tile_rules.hpp"
#include "mesh/cuda_architectures.hpp"
#include "mesh/cuda_loader.hpp"
#include "mesh/device_kind.hpp"
#include "runtime/cuda/cuda_device.hpp"
#include "runtime/cuda/cuda_queue.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace shardsolve::mesh::cuda {
namespace {

using runtime::cuda::check;
using runtime::cuda::CurrentDevice;

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

/// Throws Error(device) unless this library has code for the GPU.
void require_kernels(int device) {
  cudaDeviceProp gpu{};
  check(cudaGetDeviceProperties(&gpu, device), "asking what a GPU is");
  if (!has_kernels(SHARDSOLVE_CUDA_ARCHITECTURES, 10 * gpu.major + gpu.minor)) {
    throw Error(
        ErrorKind::device,
        fmt::format(
            "GPU {} ({}) has compute capability {}.{}; this library for CUDA {} is built for "
            "{}. Kernels need 7.0 or at least 8.0 with CUDA 12, at least 8.0 with CUDA 13: "
            "use other GPUs or CPU devices",
            device, gpu.name, gpu.major, gpu.minor, CUDART_VERSION / 1000,
            SHARDSOLVE_CUDA_ARCHITECTURES));
  }
}

/// Throws Error(device) unless this process sees all of them.
void require_devices(const std::vector<int>& devices) {
  const int count = usable_devices();
  for (const int device : devices) {
    if (device < 0 || device >= count) {
      throw Error(ErrorKind::device,
                  fmt::format("GPU {} asked for; this process sees {} (0 to {}, renumbered by "
                              "CUDA_VISIBLE_DEVICES)",
                              device, count, count - 1));
    }
    require_kernels(device);
  }
}

comm::Topology connect(const std::vector<int>& devices) {
  require_devices(devices);
  return comm::cuda::connect_gpus(devices);
}

comm::Topology measure(const std::vector<int>& devices) {
  require_devices(devices);
  return comm::cuda::measure_gpus(devices);
}

}  // namespace

int usable_devices() {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  if (driver == 0) {
    throw Error(ErrorKind::device,
                "no NVIDIA driver was found (libcuda.so.1): install one, or use CPU devices");
  }
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    throw Error(ErrorKind::device,
                fmt::format("the NVIDIA driver knows CUDA up to {}; this build of shardsolve needs "
                            "{}: update the driver",
                            version_text(driver), version_text(CUDART_VERSION)));
  }
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();
    throw Error(ErrorKind::device,
                fmt::format("the NVIDIA driver shows no GPU to this process ({}): see nvidia-smi "
                            "and CUDA_VISIBLE_DEVICES",
                            cudaGetErrorString(status)));
  }
  return count;
}

CudaBackend::CudaBackend(CudaOptions options)
    : options_(std::move(options)), topology_(connect(options_.devices)) {}

std::unique_ptr<runtime::Device> CudaBackend::make_device(std::int64_t rank,
                                                          runtime::Pulse& pulse) {
  auto delays = options_.delays;
  if (delays) {
    *delays += static_cast<std::uint64_t>(rank);
  }
  return std::make_unique<runtime::cuda::CudaDevice>(
      options_.devices[static_cast<std::size_t>(rank)], pulse, delays);
}

std::unique_ptr<comm::Communicator> CudaBackend::make_communicator(const comm::Pulses& pulses,
                                                                   std::int64_t rank) {
  if (!group_) {
    comm::Ring ring(options_.ring.empty() ? comm::ring_order(topology_) : options_.ring);
    group_ = std::make_unique<comm::cuda::ThreadPeers>(pulses, topology_, std::move(ring));
  }
  return std::make_unique<comm::cuda::PeerCommunicator>(*group_, rank);
}

/// Kernels that wait for those of other ranks need room for all of them at once: of two meshes on
/// the same GPUs each could have the room that the other waits for.
std::vector<std::unique_lock<std::mutex>> keep_others_from(const std::set<int>& devices) {
  static std::mutex mutex;  // guards the map; what is in it stays where it is
  static std::map<int, std::mutex> gpus;
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const int device : devices) {
    std::unique_lock guard(mutex);
    std::mutex& gpu = gpus[device];
    guard.unlock();
    locks.emplace_back(gpu);  // in one order everywhere
  }
  return locks;
}

std::int64_t free_memory(int device) {
  const CurrentDevice scope(device);
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for free memory");
  return static_cast<std::int64_t>(free);
}

std::int64_t CudaBackend::available_memory() const {
  std::map<int, std::int64_t> ranks_on;
  for (const int device : options_.devices) {
    ++ranks_on[device];
  }
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const auto& [device, ranks] : ranks_on) {
    least = std::min(least, free_memory(device) / ranks);
  }
  return least;
}

std::int64_t CudaBackend::default_tile(std::int64_t n, Dtype, Routine routine) const {
  return routine == Routine::lu ? core::gpu_lu_tile(n, ranks()) : core::gpu_tile(n, ranks());
}

std::string gpu_name(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "asking for the name of a GPU");
  return properties.name;
}

std::string CudaBackend::device_kind() const {
  std::set<std::string> names;
  for (const int device : options_.devices) {
    names.insert(gpu_name(device));
  }
  return gpu_kind(names);
}

}  // namespace shardsolve::mesh::cuda

// What libshardsolve looks up by name after loading this library: cuda_loader.cpp.
#define SHARDSOLVE_LOOKED_UP extern "C" __attribute__((visibility("default")))

SHARDSOLVE_LOOKED_UP shardsolve::mesh::Backend* shardsolve_make_cuda_backend(
    const shardsolve::mesh::CudaOptions* options) {
  return new shardsolve::mesh::cuda::CudaBackend(*options);
}

SHARDSOLVE_LOOKED_UP shardsolve::comm::Topology* shardsolve_cuda_topology(
    const std::vector<int>* devices, bool measured) {
  using namespace shardsolve::mesh::cuda;
  return new shardsolve::comm::Topology(measured ? measure(*devices) : connect(*devices));
}

SHARDSOLVE_LOOKED_UP void shardsolve_cuda_adopt(const shardsolve::mesh::CudaStream* stream,
                                                const shardsolve::mesh::CudaScratch* scratch,
                                                const shardsolve::mesh::CudaStream::Work* work) {
  using namespace shardsolve::runtime;
  static const auto& kernels = *new KernelTable<cuda::CudaKernelSets>;
  const cuda::CurrentDevice scope(stream->device);
  Pulse pulse;  // which nobody looks at
  cuda::CudaQueue queue("caller", pulse,
                        cuda::AdoptedStream{.device = stream->device,
                                            .stream = static_cast<cudaStream_t>(stream->handle),
                                            .scratch = scratch->data,
                                            .scratch_bytes = scratch->bytes});
  (*work)(kernels, queue);
}

SHARDSOLVE_LOOKED_UP bool shardsolve_cuda_is_done(int device, void* stream) {
  using namespace shardsolve::runtime::cuda;
  const CurrentDevice scope(device);
  const cudaError_t state = cudaStreamQuery(static_cast<cudaStream_t>(stream));
  if (state == cudaErrorNotReady) {
    cudaGetLastError();  // it is no error
    return false;
  }
  check(state, "the work of a stream of the caller's");
  return true;
}

SHARDSOLVE_LOOKED_UP const char* shardsolve_cuda_version() {
  return shardsolve::core::plugin_version;
}
