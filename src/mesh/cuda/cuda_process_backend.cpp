#include "mesh/cuda/cuda_process_backend.hpp"

#include "comm/cuda/gpu_topology.hpp"
#include "comm/cuda/ipc_peers.hpp"
#include "comm/cuda/nccl_communicator.hpp"
#include "comm/cuda/nccl_library.hpp"
#include "comm/cuda/peer_communicator.hpp"
#include "comm/ring.hpp"
#include "comm/tell_all.hpp"
#include "core/tile_rules.hpp"
#include "mesh/cuda/cuda_backend.hpp"
#include "mesh/device_kind.hpp"
#include "runtime/cuda/cuda_device.hpp"
#include "runtime/cuda/cuda_queue.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

namespace shardsolve::mesh::cuda {
namespace {

using runtime::cuda::check;
using runtime::cuda::CurrentDevice;

/// CUDA shows other processes whole blocks of this size.
constexpr std::size_t block = std::size_t{2} << 20U;

/// The number of a GPU that no other has.
std::string uuid_of(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "asking for a GPU's properties");
  std::string text = "GPU-";
  for (const char byte : properties.uuid.bytes) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

/// Of this process: those of two containers may have the same pid.
std::uint64_t own_number() {
  static const std::uint64_t number = [] {
    std::random_device random;
    return std::uint64_t{random()} << 32U | random();
  }();
  return number;
}

/// This rank's GPU, which is made the current one.
GpuSeat take_seat(const comm::Transport& transport, const CudaProcessOptions& options,
                  int& device) {
  GpuSeat seat;
  seat.communicator = options.communicator;
  seat.process = own_number();
  try {
    const std::vector<std::int64_t>& hosts = transport.hosts();
    const auto own = hosts.begin() + transport.rank();
    const int visible = usable_devices();
    device = options.device ? *options.device
                            : choose_gpu(options.devices, std::count(hosts.begin(), own, *own),
                                         std::count(hosts.begin(), hosts.end(), *own), visible);
    if (device < 0 || device >= visible) {
      throw Error(ErrorKind::device,
                  fmt::format("GPU {} asked for; this process sees {} (0 to {}, renumbered by "
                              "CUDA_VISIBLE_DEVICES)",
                              device, visible, visible - 1));
    }
    for (int each = 0; each < visible; ++each) {
      seat.visible.push_back(uuid_of(each));
    }
    seat.gpu = seat.visible[static_cast<std::size_t>(device)];
    check(cudaSetDevice(device), "choosing a GPU");
    check(cudaFree(nullptr), "starting to use a GPU");
  } catch (...) {
    seat.set_failure(std::current_exception());
  }
  return seat;
}

/// Links as far as this process sees the GPUs, else what lies between the hosts.
comm::Topology look_at(const std::vector<GpuSeat>& seats, const GpuSeat& own,
                       const std::vector<std::int64_t>& hosts) {
  std::vector<int> numbers;
  for (const GpuSeat& seat : seats) {
    const auto found = std::find(own.visible.begin(), own.visible.end(), seat.gpu);
    if (found == own.visible.end()) {
      return comm::topology_of_processes(hosts);
    }
    numbers.push_back(static_cast<int>(found - own.visible.begin()));
  }
  return comm::cuda::look_at_gpus(numbers);
}

/// Throws, the same in all processes, if one has no NCCL.
void require_nccl(comm::Transport& transport, const std::string& why) {
  GpuSeat seat;
  seat.error = ErrorKind::device;
  seat.failure = comm::cuda::nccl().failure();
  if (!seat.failure.empty() && !why.empty()) {
    seat.failure += fmt::format(" (CUDA IPC, which needs none, is not to be had: {})", why);
  }
  require_seats(tell_seats(transport, seat), true);
}

}  // namespace

CudaProcessBackend::CudaProcessBackend(std::unique_ptr<comm::Transport> transport,
                                       const CudaProcessOptions& options)
    : delays_(options.delays) {
  const GpuSeat own = take_seat(*transport, options, device_);
  const std::vector<GpuSeat> seats = tell_seats(*transport, own);
  require_seats(seats, options.may_share);
  sharers_ = std::count_if(seats.begin(), seats.end(),
                           [&own](const GpuSeat& seat) { return seat.gpu == own.gpu; });
  topology_ = in_all_or_none(*transport, [&] { return look_at(seats, own, transport->hosts()); });
  connect(*transport, seats, options.communicator);
  processes_.emplace(std::move(transport));
  // Streams wait for other GPUs, where no thread sees that one is gone.
  processes_->watch_progress();
}

CudaProcessBackend::~CudaProcessBackend() {
  cudaSetDevice(device_);
  peers_.reset();
  ipc_.board.reset();
}

void CudaProcessBackend::connect(comm::Transport& transport, const std::vector<GpuSeat>& seats,
                                 GpuCommunicator asked) {
  std::string against;
  if (asked != GpuCommunicator::nccl) {
    against = comm::first_said(transport, without_ipc(seats, transport.hosts(), *topology_));
    if (against.empty()) {
      ipc_ = comm::cuda::try_ipc(transport);
      against = ipc_.failure;
    }
  }
  if (choose_communicator(asked, against) == GpuCommunicator::nccl) {
    require_nccl(transport, against);
  }
}

std::unique_ptr<runtime::Device> CudaProcessBackend::make_device(std::int64_t rank,
                                                                 runtime::Pulse& pulse) {
  auto delays = delays_;
  if (delays) {
    *delays += static_cast<std::uint64_t>(rank);
  }
  return std::make_unique<runtime::cuda::CudaDevice>(device_, pulse, delays, block);
}

std::unique_ptr<comm::Communicator> CudaProcessBackend::make_communicator(
    const comm::Pulses& pulses, std::int64_t rank) {
  if (!ipc_.board) {
    return std::make_unique<comm::cuda::NcclCommunicator>(*processes_, pulses.of(rank), *topology_);
  }
  const CurrentDevice scope(device_);
  peers_ = std::make_unique<comm::cuda::IpcPeers>(
      *processes_, pulses, *topology_, comm::Ring(comm::ring_order(*topology_)),
      std::move(ipc_.board), [device = device_](std::size_t bytes) {
        return runtime::cuda::allocate(device, bytes, block);
      });
  return std::make_unique<comm::cuda::PeerCommunicator>(*peers_, rank);
}

std::vector<std::unique_lock<std::mutex>> CudaProcessBackend::keep_others_away() {
  return keep_others_from({device_});
}

std::int64_t CudaProcessBackend::available_memory() const {
  return free_memory(device_) / sharers_;
}

std::int64_t CudaProcessBackend::default_tile(std::int64_t n, Dtype, Routine routine) const {
  return routine == Routine::lu ? core::gpu_lu_tile(n, ranks()) : core::gpu_tile(n, ranks());
}

std::string CudaProcessBackend::device_kind() const { return gpu_kind({gpu_name(device_)}); }

}  // namespace shardsolve::mesh::cuda

/// What libshardsolve looks up by name after loading this library. Takes the transport over.
extern "C" __attribute__((visibility("default"))) shardsolve::mesh::Backend*
shardsolve_make_cuda_process_backend(shardsolve::comm::Transport* transport,
                                     const shardsolve::mesh::CudaProcessOptions* options) {
  return new shardsolve::mesh::cuda::CudaProcessBackend(
      std::unique_ptr<shardsolve::comm::Transport>(transport), *options);
}
