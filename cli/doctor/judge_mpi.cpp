// Processes that were started together, and the MPI that is to connect them.

#include "findings.hpp"
#include "text.hpp"

#include <fmt/format.h>

namespace shardsolve::cli::doctor {
namespace {

/// "Open MPI", "MPICH" for it and its relatives (Intel's, MVAPICH, Cray's), or "".
std::string family_of(const std::string& version) {
  const std::string text = lower_case(version);
  const auto holds = [&](const char* word) { return text.find(word) != std::string::npos; };
  if (holds("open mpi") || holds("open-mpi") || holds("openrte")) {
    return "Open MPI";
  }
  const bool relative = holds("mpich") || holds("hydra") || holds("intel(r) mpi") ||
                        holds("mvapich") || holds("cray");
  return relative ? "MPICH" : "";
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find_first_of(",\n"));
}

void judge_launch(const Surroundings& s, Findings& findings) {
  const std::string together =
      fmt::format("{} processes were started together", s.launch.processes);
  if (!s.mpi.failure.empty()) {
    findings.push_back({Severity::error, "mpi-missing",
                        fmt::format("{}, and {}", together, s.mpi.failure),
                        "each would have to solve the whole problem alone",
                        "build shardsolve where that MPI is, or start one process with --devices"});
    return;
  }
  const std::string family = family_of(s.mpi.version);
  const bool both_known = !family.empty() && !s.launch.launcher.empty();
  if (both_known && s.launch.launcher != "Slurm" && s.launch.launcher != family) {
    findings.push_back({Severity::error, "mpi-mismatch",
                        fmt::format("{} by the launcher of {}, and libshardsolve_mpi.so uses {}",
                                    together, s.launch.launcher, first_line(s.mpi.version)),
                        "that MPI does not know the launcher: each process would be the only one",
                        fmt::format("start them with the mpirun that belongs to {}", s.mpi.mpi)});
  } else if (!s.launch.connects && s.launch.launcher == "Open MPI") {
    findings.push_back(
        {Severity::error, "mpi-not-launched",
         fmt::format("OMPI_COMM_WORLD_SIZE={}, and PMIX_NAMESPACE, which mpirun sets too, is not "
                     "set",
                     s.launch.processes),
         "MPI would connect this process with itself alone, and shardsolve ends where it expects "
         "others",
         "start it with mpirun; if it is to be alone, unset OMPI_COMM_WORLD_SIZE, or --mpi off"});
  } else if (!s.launch.connects) {
    findings.push_back(
        {Severity::error, "srun-without-pmi",
         fmt::format("{} by srun, which gave them no PMI or PMIx to meet by", together),
         "MPI would connect each process with itself alone, or stop",
         "srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH); 'srun --mpi=list' says "
         "what this Slurm has"});
  }
}

/// --mpi on, and nothing that a launcher would have set.
void judge_alone(const Surroundings& s, Findings& findings) {
  if (!s.mpi.failure.empty()) {
    findings.push_back({Severity::error, "mpi-missing", s.mpi.failure, "--mpi on needs it",
                        "leave out --mpi on: one process has many devices by --devices"});
    return;
  }
  findings.push_back({Severity::warning, "mpi-alone",
                      "--mpi on, and no launcher has started this process",
                      "it is the only one, on one device; or its launcher is none that shardsolve "
                      "knows (Open MPI, "
                      "MPICH and its relatives, srun)",
                      "mpirun -np 4 shardsolve ..., or leave out --mpi on"});
}

void judge_mpirun(const Surroundings& s, Findings& findings) {
  const std::string ours = family_of(s.mpi.version);
  const std::string theirs = family_of(s.mpirun.says);
  if (ours.empty() || theirs.empty() || ours == theirs) {
    return;
  }
  findings.push_back({Severity::warning, "mpi-mismatch",
                      fmt::format("{} is of {} ('{}'), and libshardsolve_mpi.so uses {}",
                                  s.mpirun.path, theirs, s.mpirun.says, first_line(s.mpi.version)),
                      "processes that it starts would not find each other",
                      fmt::format("use the mpirun that belongs to {}", s.mpi.mpi)});
}

}  // namespace

void judge_mpi(const Surroundings& s, Findings& findings) {
  if (s.launch.processes > 1) {
    judge_launch(s, findings);
  } else if (s.job.mpi) {
    judge_alone(s, findings);
  } else {
    judge_mpirun(s, findings);
  }
}

}  // namespace shardsolve::cli::doctor
