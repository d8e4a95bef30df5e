// Limits that the system sets to memory and threads.

#include "findings.hpp"
#include "text.hpp"

#include <fmt/format.h>

namespace shardsolve::cli::doctor {
namespace {

constexpr std::int64_t threads_of_a_rank = 5;  // four queues and who fills them

void judge_address_space(const Surroundings& s, Findings& findings) {
  if (!s.host.address_space) {
    return;
  }
  const double limit = static_cast<double>(*s.host.address_space) / giga;
  if (s.has_gpu()) {
    findings.push_back({s.job.cuda ? Severity::error : Severity::warning, "address-space-limit",
                        fmt::format("ulimit -v allows {:.3g} GB of addresses", limit),
                        "CUDA reserves addresses for the memory of all GPUs and of the host, and "
                        "does not start without",
                        "ulimit -v unlimited; to limit memory use a control group"});
  } else if (*s.host.address_space < s.host.available_memory) {
    findings.push_back({Severity::warning, "address-space-limit",
                        fmt::format("ulimit -v allows {:.3g} GB of addresses, {:.3g} GB of memory "
                                    "are free",
                                    limit, static_cast<double>(s.host.available_memory) / giga),
                        "memory runs out before it is used: threads and libraries take addresses "
                        "as well",
                        "ulimit -v unlimited; to limit memory use a control group"});
  }
}

void judge_commit(const Surroundings& s, Findings& findings) {
  if (!s.host.strict_commit || s.host.commit_left >= s.host.available_memory) {
    return;
  }
  findings.push_back(
      {Severity::warning, "strict-overcommit",
       fmt::format("vm.overcommit_memory is 2: {:.3g} GB may still be reserved, {:.3g} GB are free",
                   static_cast<double>(s.host.commit_left) / giga,
                   static_cast<double>(s.host.available_memory) / giga),
       "memory that programs reserve and never use counts, and XLA and CUDA reserve much: "
       "allocations fail while memory is free",
       "sysctl vm.overcommit_memory=0, or a larger vm.overcommit_ratio"});
}

void judge_thread_limit(const Surroundings& s, Findings& findings) {
  const std::int64_t ranks = s.launch.processes > 1 ? s.launch.on_host : s.job.devices;
  const std::int64_t needed = ranks * threads_of_a_rank;
  const std::string why =
      fmt::format("{} device{} {} threads", ranks, ranks == 1 ? " needs" : "s need", needed);
  if (s.host.threads && *s.host.threads - s.host.threads_in_use < needed) {
    findings.push_back(
        {Severity::error, "thread-limit",
         fmt::format("ulimit -u allows this user {} threads and processes, and {} are there",
                     *s.host.threads, s.host.threads_in_use),
         why,
         fmt::format("ulimit -u {} or more, or fewer devices",
                     s.host.threads_in_use + 4 * needed)});
  }
  if (s.host.group_threads && *s.host.group_threads < needed) {
    findings.push_back(
        {Severity::error, "thread-limit",
         fmt::format("the control group allows {} threads and processes more (pids.max)",
                     *s.host.group_threads),
         why,
         fmt::format("raise it by {} or more (docker --pids-limit, TasksMax of systemd, the pod's "
                     "limit of Kubernetes), or use fewer devices",
                     4 * needed)});
  }
}

/// MPI and NCCL pass messages inside a host through files in /dev/shm.
void judge_shared_memory(const Surroundings& s, Findings& findings) {
  constexpr std::int64_t enough = std::int64_t{256} << 20U;  // Docker gives 64 MB
  const bool needed = s.launch.on_host > 1 || s.driver.gpus > 1 || s.cuda.gpus.size() > 1;
  if (!needed || !s.host.shared_memory || *s.host.shared_memory >= enough) {
    return;
  }
  findings.push_back(
      {Severity::warning, "small-shared-memory",
       fmt::format("/dev/shm has {:.3g} MB free", static_cast<double>(*s.host.shared_memory) / 1e6),
       "MPI and NCCL (JAX's collectives) pass messages through it, and end with a "
       "bus error when it is full",
       "docker run --shm-size=1g, or mount a larger tmpfs there"});
}

}  // namespace

void judge_memory(const Surroundings& s, Findings& findings) {
  judge_address_space(s, findings);
  judge_commit(s, findings);
  judge_thread_limit(s, findings);
  judge_shared_memory(s, findings);
}

}  // namespace shardsolve::cli::doctor
