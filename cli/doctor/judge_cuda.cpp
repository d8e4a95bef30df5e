// shardsolve's CUDA library, the driver, and the GPUs that the job asks for.

#include "choice.hpp"
#include "findings.hpp"
#include "gpu_path.hpp"
#include "mesh/cuda_architectures.hpp"
#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace shardsolve::cli::doctor {
namespace {

void judge_library(const Surroundings& s, Findings& findings) {
  const std::string against = reason_against_cuda(s);
  if (against.empty() || !(s.job.cuda || s.has_gpu())) {
    return;
  }
  findings.push_back({s.job.cuda ? Severity::error : Severity::warning, "cuda-not-usable", against,
                      s.job.cuda ? "--backend cuda fails, with this message"
                                 : "there is a GPU, and shardsolve cannot use it",
                      s.job.cuda ? "CPU devices work all the same: --backend cpu"
                                 : "see the reason; CPU devices work all the same"});
}

void judge_asked(const Surroundings& s, Findings& findings) {
  if (!s.job.cuda || !reason_against_cuda(s).empty()) {
    return;
  }
  if (const std::string against = reason_against_processes(s); s.job.mpi && !against.empty()) {
    findings.push_back(
        {Severity::error, "gpu-missing", against,
         "each process needs a GPU of its own: all leave when they start",
         "start fewer processes, or name with --devices a GPU for each one of the host, in the "
         "order of ranks"});
  }
  const auto count = static_cast<int>(s.cuda.gpus.size());
  for (const int gpu : s.job.gpus) {
    if (gpu >= count) {
      findings.push_back({Severity::error, "gpu-missing",
                          fmt::format("GPU {} is asked for, this process sees {}", gpu, count),
                          "CUDA counts from 0 what CUDA_VISIBLE_DEVICES leaves",
                          fmt::format("--devices with numbers up to {}, or another "
                                      "CUDA_VISIBLE_DEVICES",
                                      count - 1)});
    }
  }
}

void judge_gpus(const Surroundings& s, Findings& findings) {
  const std::vector<int> used = s.gpus_of_job();
  for (std::size_t i = 0; i < s.cuda.gpus.size(); ++i) {
    const mesh::GpuFacts& gpu = s.cuda.gpus[i];
    const bool asked = std::find(used.begin(), used.end(), static_cast<int>(i)) != used.end();
    const Severity severity = asked ? Severity::error : Severity::warning;
    if (!gpu.failure.empty()) {
      findings.push_back({severity, "gpu-unusable",
                          fmt::format("GPU {} cannot be used: {}", i, gpu.failure),
                          "a solve on it fails the same way",
                          "see nvidia-smi: another program may have it for itself alone, or all of "
                          "its memory"});
    } else if (!mesh::has_kernels(s.cuda.architectures, 10 * gpu.major + gpu.minor)) {
      findings.push_back(
          {severity, "gpu-without-kernels",
           fmt::format("GPU {} ({}) has compute capability {}.{}; shardsolve's library for CUDA {} "
                       "has no kernels for it, but for {}",
                       i, gpu.name, gpu.major, gpu.minor, s.cuda.runtime / 1000,
                       s.cuda.architectures),
           "a mesh with it is refused",
           "use other GPUs or CPU devices; the page about what is supported has a table of GPUs "
           "and CUDAs, and -DCMAKE_CUDA_ARCHITECTURES chooses what is built"});
    }
  }
}

/// GPUs of processes that could not send each other anything.
void judge_path(const Surroundings& s, Findings& findings) {
  if (const auto path = path_between_gpus(s); path && path->name.empty()) {
    findings.push_back({Severity::error, "gpus-not-connected", path->why,
                        "the processes leave with this message when they start",
                        "see the reason; one process has all GPUs of a host without CUDA IPC or "
                        "NCCL: --devices 0,1"});
  }
}

void judge_launch_blocking(const Surroundings& s, Findings& findings) {
  const std::string value = trimmed(value_of(s.environment, "CUDA_LAUNCH_BLOCKING"));
  if (s.has_gpu() && !value.empty() && value != "0") {
    findings.push_back({Severity::warning, "cuda-launch-blocking",
                        fmt::format("CUDA_LAUNCH_BLOCKING={}", value),
                        "every kernel is waited for before the next: nothing runs side by side",
                        "unset CUDA_LAUNCH_BLOCKING, which is for finding faults"});
  }
}

/// JAX's wheels bring CUDA's libraries; what LD_LIBRARY_PATH names is found before them.
void judge_library_path(const Surroundings& s, Findings& findings) {
  const bool by_pip = std::any_of(
      s.python.packages.begin(), s.python.packages.end(),
      [](const auto& package) { return package.first.compare(0, 13, "nvidia-cublas") == 0; });
  if (!by_pip || s.cuda_libraries.empty()) {
    return;
  }
  findings.push_back({Severity::warning, "ld-library-path-cuda",
                      fmt::format("LD_LIBRARY_PATH leads to {}", fmt::join(s.cuda_libraries, ", ")),
                      "they take the place of those that pip has installed for JAX, whose versions "
                      "fit: a usual reason why JAX finds no GPU",
                      "unset LD_LIBRARY_PATH, or take these directories out of it"});
}

}  // namespace

void judge_cuda(const Surroundings& s, Findings& findings) {
  judge_library(s, findings);
  judge_asked(s, findings);
  judge_gpus(s, findings);
  judge_path(s, findings);
  judge_launch_blocking(s, findings);
  judge_library_path(s, findings);
}

}  // namespace shardsolve::cli::doctor
