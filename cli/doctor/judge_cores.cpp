// Threads, and the cores that are there for them.

#include "findings.hpp"
#include "text.hpp"

#include <fmt/format.h>

#include <array>

namespace shardsolve::cli::doctor {
namespace {

/// CPU devices of the job that share this host.
std::int64_t ranks_on_host(const Surroundings& s) {
  return s.launch.processes > 1 ? s.launch.on_host : s.job.devices;
}

std::string cores_text(const Host& host) {
  std::string text = fmt::format("{} of the machine's {} can be used", host.usable_cores(),
                                 plural(host.cores, "core"));
  if (host.allowed_cores < host.cores) {
    text += fmt::format(", affinity allows {}", host.allowed_cores);
  }
  if (host.quota) {
    text += fmt::format(", the control group {:.3g}", *host.quota);
  }
  return text;
}

void judge_devices(const Surroundings& s, Findings& findings) {
  const std::int64_t ranks = ranks_on_host(s);
  // What a launcher binds is the cores of one process, not those of all.
  const std::int64_t cores = s.launch.processes > 1 ? s.host.cores : s.host.usable_cores();
  if (s.job.cuda || ranks <= cores) {
    return;
  }
  const bool several = s.launch.processes > 1;
  findings.push_back({Severity::warning, "devices-over-cores",
                      fmt::format("{} {} on {}", ranks, several ? "processes" : "CPU devices",
                                  several ? "a host of " + plural(cores, "core")
                                          : plural(cores, "core") + ": " + cores_text(s.host)),
                      "ranks then take turns on a core, and all wait for the slowest",
                      several
                          ? "start at most as many processes on a host as it has cores"
                          : fmt::format("pass --devices {}, or give the job more cores (taskset, "
                                        "--cpus-per-task, docker --cpus)",
                                        cores)});
}

/// CPU time is rationed: who counts cores counts too many.
void judge_quota(const Surroundings& s, Findings& findings) {
  if (!s.host.quota || *s.host.quota >= static_cast<double>(s.host.allowed_cores)) {
    return;
  }
  findings.push_back(
      {Severity::note, "cpu-quota",
       fmt::format(
           "the control group allows {:.3g} {} worth of CPU time, {} seen", *s.host.quota,
           *s.host.quota == 1.0 ? "core's" : "cores'",
           plural(s.host.allowed_cores, "core") + (s.host.allowed_cores == 1 ? " is" : " are")),
       "programs that start a thread for every core that they see (NumPy, XLA) are stopped for a "
       "part of each period",
       fmt::format("set OMP_NUM_THREADS={0} and NPROC={0}, or raise the quota (docker --cpus, "
                   "limits.cpu of Kubernetes)",
                   s.host.usable_cores())});
}

/// The first of the numbers that such a variable holds: OMP_NUM_THREADS may have one a level.
void judge_variable(const Surroundings& s, const std::string& variable, Findings& findings) {
  const std::string text = trimmed(value_of(s.environment, variable));
  if (text.empty()) {
    return;
  }
  const auto threads = to_number<std::int64_t>(trimmed(split(text, ',').front()));
  if (!threads || *threads < 1) {
    findings.push_back({Severity::warning, "threads-not-a-number",
                        fmt::format("{}={}", variable, text),
                        "it is no whole number above 0, so it is ignored, and there are as many "
                        "threads as cores",
                        fmt::format("export {}=1 (or more)", variable)});
    return;
  }
  const std::int64_t processes = s.launch.on_host;
  const std::int64_t cores = processes > 1 ? s.host.cores : s.host.usable_cores();
  if (processes * *threads <= cores) {
    return;
  }
  const std::string each =
      processes > 1 ? fmt::format(" in each of {} processes of this host", processes) : "";
  findings.push_back(
      {Severity::warning, "threads-over-cores",
       fmt::format("{}={}{}, on {}", variable, *threads, each, plural(cores, "core")),
       s.blas.shared
           ? "each rank of shardsolve starts so many threads too, as its BLAS is a shared library"
           : "NumPy and other libraries start so many threads, which take the cores from "
             "shardsolve's (its own BLAS has one thread a rank)",
       fmt::format("export {}={}", variable, std::max<std::int64_t>(1, cores / processes))});
}

/// CPU devices that JAX is told to have; its own variable goes before XLA's flag.
std::int64_t jax_cpu_devices(const Environment& environment) {
  const std::string variable = trimmed(value_of(environment, "JAX_NUM_CPU_DEVICES"));
  if (const auto devices = to_number<std::int64_t>(variable)) {
    return *devices;
  }
  const std::string flag = "--xla_force_host_platform_device_count=";
  const std::string flags = value_of(environment, "XLA_FLAGS");
  const std::size_t at = flags.rfind(flag);
  if (at == std::string::npos) {
    return 0;
  }
  const std::size_t begin = at + flag.size();
  const std::size_t end = flags.find_first_not_of("0123456789", begin);
  return to_number<std::int64_t>(flags.substr(begin, end - begin)).value_or(0);
}

/// XLA hangs when calls over several CPU devices outnumber the threads of its pool.
void judge_nproc(const Surroundings& s, Findings& findings) {
  const std::int64_t devices = jax_cpu_devices(s.environment);
  const std::string given = trimmed(value_of(s.environment, "NPROC"));
  const std::int64_t threads = to_number<std::int64_t>(given).value_or(s.host.allowed_cores);
  if (devices < 2 || threads >= 2 * devices) {
    return;
  }
  findings.push_back(
      {Severity::note, "nproc-below-devices",
       fmt::format("JAX is to have {} CPU devices, and XLA {} threads for them ({})", devices,
                   threads,
                   given.empty() ? "the cores; NPROC is not set" : fmt::format("NPROC={}", given)),
       "a program that dispatches some 32 calls over several CPU devices and waits for none of "
       "them can hang in XLA, with shardsolve or without",
       fmt::format("for such a program: export NPROC={} before Python starts, or call "
                   "jax.block_until_ready now and then",
                   2 * devices)});
}

}  // namespace

void judge_cores(const Surroundings& s, Findings& findings) {
  judge_devices(s, findings);
  judge_quota(s, findings);
  for (const char* variable : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    judge_variable(s, variable, findings);
  }
  judge_nproc(s, findings);
}

}  // namespace shardsolve::cli::doctor
