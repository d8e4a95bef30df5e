/// How data will get from one GPU of a job to another, and why.
#pragma once

#include "surroundings.hpp"

#include <optional>
#include <string>

namespace shardsolve::cli::doctor {

struct GpuPath {
  std::string name;  ///< "copy engines", "CUDA IPC" or "NCCL"; empty if there is none
  std::string why;   ///< that one, or none

  /// Whether panels go round our ring; NCCL has its own.
  bool has_ring() const { return !name.empty() && name != "NCCL"; }
};

/// Why a process of this host would have no GPU of its own; empty if each has one.
std::string reason_against_processes(const Surroundings& surroundings);

/// Nothing if the job has not several GPUs, or if some of them cannot be used.
std::optional<GpuPath> path_between_gpus(const Surroundings& surroundings);

}  // namespace shardsolve::cli::doctor
