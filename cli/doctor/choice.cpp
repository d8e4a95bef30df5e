#include "choice.hpp"

#include "jax_support.hpp"
#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardsolve::cli::doctor {
namespace {

void choose_for_command(const Surroundings& s, Choice& choice) {
  const std::string against = reason_against_cuda(s);
  if (s.job.cuda) {
    choice.backend = "cuda";
    choice.devices = s.launch.processes > 1
                         ? fmt::format("{} processes, a GPU each", s.launch.processes)
                     : s.job.mpi ? std::string("1 process, a GPU")
                                 : fmt::format("GPU{} {}", s.job.gpus.size() == 1 ? "" : "s",
                                               fmt::join(s.job.gpus, ", "));
    choice.why =
        against.empty() ? "as --backend cuda asks" : fmt::format("as asked, but {}", against);
    return;
  }
  choice.backend = "cpu";
  if (s.job.mpi) {
    choice.devices = s.launch.processes == 1
                         ? "1 process, a CPU device"
                         : fmt::format("{} processes, a CPU device each", s.launch.processes);
    choice.why = s.launch.processes == 1 ? "as --mpi on asks, and no launcher has started others"
                                         : "each process that was started is one device";
    return;
  }
  choice.devices = fmt::format("{} CPU device{}", s.job.devices, s.job.devices == 1 ? "" : "s");
  const std::string begin = s.job.chosen ? "as --devices asks" : "the default";
  if (!s.has_gpu()) {
    choice.why = begin + "; there is no GPU";
  } else {
    choice.why = begin + (against.empty() ? "; --backend cuda takes GPUs"
                                          : fmt::format("; no GPU can be used: {}", against));
  }
}

void choose_for_jax(const Surroundings& s, Choice& choice) {
  if (s.python.version_of("jaxlib").empty()) {
    choice.jax_why = s.python.path.empty() ? "there is no python3 on PATH"
                                           : fmt::format("{} has no JAX", s.python.path);
    return;
  }
  const auto platforms = jax_platforms(s.environment);
  const bool has_plugin = !jax_cuda_versions(s.python).empty();
  choice.jax = "cpu";
  if (!platforms.empty()) {
    const bool is_gpu = platforms.front() == "gpu" || platforms.front() == "cuda";
    const bool passed_over = is_gpu && !has_plugin && platforms.size() > 1;
    choice.jax = passed_over ? platforms[1] : is_gpu ? "cuda" : platforms.front();
    choice.jax_why = passed_over ? "of JAX_PLATFORMS, as JAX has no support for GPUs installed"
                                 : "as JAX_PLATFORMS says";
  } else if (!has_plugin) {
    choice.jax_why = "JAX has no support for GPUs installed";
  } else if (s.cuda.gpus.empty()) {
    choice.jax_why = "no GPU is seen";
  } else {
    choice.jax = "cuda";
    choice.jax_why = "JAX's default where it sees GPUs";
  }
}

}  // namespace

std::string reason_against_cuda(const Surroundings& s) {
  if (!s.cuda.failure.empty()) {
    return s.cuda.failure;
  }
  if (s.cuda.driver == 0) {
    return "no NVIDIA driver was found (libcuda.so.1)";
  }
  // Inside a major version new libraries run on older drivers.
  if (s.cuda.driver / 1000 < s.cuda.runtime / 1000) {
    return fmt::format(
        "the NVIDIA driver knows CUDA up to {}, shardsolve needs {}: update the "
        "driver",
        cuda_version_text(s.cuda.driver), cuda_version_text(s.cuda.runtime));
  }
  if (s.cuda.gpus.empty()) {
    return "the NVIDIA driver shows no GPU to this process";
  }
  return "";
}

Choice choose(const Surroundings& s) {
  Choice choice;
  choose_for_command(s, choice);
  choice.path = path_between_gpus(s);
  choose_for_jax(s, choice);
  return choice;
}

}  // namespace shardsolve::cli::doctor
