/// What will compute, and why.
#pragma once

#include "gpu_path.hpp"
#include "surroundings.hpp"

#include <optional>
#include <string>

namespace shardsolve::cli::doctor {

struct Choice {
  std::string backend;  ///< "cpu" or "cuda": that of `shardsolve solve`
  std::string devices;  ///< "4 CPU devices", "GPUs 0, 1"
  std::string why;
  std::optional<GpuPath> path;  ///< between the GPUs of the job, if it has several
  std::string jax;              ///< "cpu", "cuda", or empty without a JAX
  std::string jax_why;
};

Choice choose(const Surroundings& surroundings);

/// Why no GPU can be used, and what to do; empty if there is one that can.
std::string reason_against_cuda(const Surroundings& surroundings);

}  // namespace shardsolve::cli::doctor
