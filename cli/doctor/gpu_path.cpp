#include "gpu_path.hpp"

#include "choice.hpp"
#include "mesh/gpu_seats.hpp"

#include <shardsolve/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace shardsolve::cli::doctor {
namespace {

GpuPath path_in_one_process(const comm::Topology& topology) {
  std::set<std::string> peers;
  bool host = false;
  for (std::int64_t from = 0; from < topology.ranks(); ++from) {
    for (std::int64_t to = 0; to < topology.ranks(); ++to) {
      const comm::LinkKind kind = topology.link(from, to).kind;
      host = host || kind == comm::LinkKind::host;
      if (from != to && kind != comm::LinkKind::host) {
        peers.insert(comm::name(kind));
      }
    }
  }
  constexpr const char* name = "copy engines";
  constexpr const char* through_host = "through the memory of the host";
  if (peers.empty()) {
    return {name, fmt::format("{}, as the GPUs have no peer access", through_host)};
  }
  const std::string over = fmt::format("over {}, as all are of one process and have peer access",
                                       fmt::join(peers, " and "));
  return {name, host ? fmt::format("{}; {} where they have none", over, through_host) : over};
}

/// What the processes would tell each other when they start, as far as this one can know.
std::vector<mesh::GpuSeat> expected_seats(const Surroundings& s, const std::vector<int>& gpus) {
  const auto processes = static_cast<std::size_t>(s.launch.processes);
  const auto on_host = static_cast<std::size_t>(s.launch.on_host);
  std::vector<mesh::GpuSeat> seats(processes);
  for (std::size_t rank = 0; rank < processes; ++rank) {
    mesh::GpuSeat& seat = seats[rank];
    if (rank < on_host && gpus.size() == on_host) {
      seat.gpu = std::to_string(gpus[rank]);
      for (const int gpu : gpus) {
        seat.visible.push_back(std::to_string(gpu));
      }
    } else {  // a launcher has chosen, or another host
      seat.gpu = fmt::format("of rank {}", rank);
      seat.visible = {seat.gpu};
    }
  }
  return seats;
}

/// As the processes will come to it (CudaProcessBackend::connect), but for the trial of CUDA IPC.
GpuPath path_of_processes(const Surroundings& s, const std::string& against) {
  const std::string& no_nccl = s.cuda.nccl_failure;
  constexpr const char* as_asked = "as --communicator asks";
  const bool asked = s.job.communicator != GpuCommunicator::automatic;
  try {
    if (mesh::choose_communicator(s.job.communicator, against) == GpuCommunicator::ipc) {
      return {"CUDA IPC",
              asked ? fmt::format("{}; tried when the processes start", as_asked)
                    : fmt::format("the processes are on one host, see each other's GPUs, and these "
                                  "have peer access; tried when they start, {}",
                                  no_nccl.empty() ? "and NCCL if that fails"
                                                  : "and there is no NCCL to take its place")};
    }
  } catch (const Error& error) {
    return {"", error.what()};
  }
  const std::string why = asked ? as_asked : fmt::format("no CUDA IPC, as {}", against);
  return no_nccl.empty() ? GpuPath{"NCCL", why} : GpuPath{"", fmt::format("{} ({})", no_nccl, why)};
}

}  // namespace

std::string reason_against_processes(const Surroundings& s) {
  const auto visible = static_cast<std::int64_t>(s.cuda.gpus.size());
  try {
    mesh::choose_gpu(s.job.gpus, s.launch.on_host - 1, s.launch.on_host, visible);
  } catch (const Error& error) {
    return error.what();
  }
  if (s.launch.on_host > 1 && visible == 1 && s.driver.gpus == 1) {
    return fmt::format("this host has {} processes of the mesh and one GPU", s.launch.on_host);
  }
  return "";
}

std::optional<GpuPath> path_between_gpus(const Surroundings& s) {
  if (!s.job.cuda || !reason_against_cuda(s).empty()) {
    return std::nullopt;
  }
  const std::vector<int> gpus = s.gpus_of_job();
  const bool linked = s.links && s.links->gpus == gpus;
  if (!s.job.mpi) {
    return linked ? std::optional(path_in_one_process(s.links->topology)) : std::nullopt;
  }
  const bool one_host = s.launch.on_host == s.launch.processes;
  const bool unknown = one_host && !linked && s.cuda.gpus.size() > 1;  // some cannot be used
  if (s.launch.processes < 2 || unknown || !reason_against_processes(s).empty()) {
    return std::nullopt;
  }
  std::vector<std::int64_t> hosts(static_cast<std::size_t>(s.launch.processes), 1);
  std::fill_n(hosts.begin(), s.launch.on_host, 0);
  const std::string against = mesh::without_ipc(expected_seats(s, gpus), hosts,
                                                linked ? s.links->topology : comm::Topology(0));
  return path_of_processes(s, against);
}

}  // namespace shardsolve::cli::doctor
