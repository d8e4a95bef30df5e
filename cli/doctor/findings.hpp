/// What is wrong with the surroundings of a job: pure functions of them.
#pragma once

#include "surroundings.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardsolve::cli::doctor {

enum class Severity : std::uint8_t {
  note,     ///< good to know
  warning,  ///< works, but slower or differently than meant
  error,    ///< will fail
};

/// "note", "warning" or "error".
std::string_view name(Severity severity);

struct Finding {
  Severity severity = Severity::note;
  std::string code;    ///< for scripts: "xla-unknown-flag"
  std::string found;   ///< one sentence
  std::string why;     ///< why it matters
  std::string remedy;  ///< what to do
};

using Findings = std::vector<Finding>;

/// All that is known to go wrong, errors first.
Findings judge(const Surroundings& surroundings);

// The parts of it.
void judge_cores(const Surroundings& surroundings, Findings& findings);
void judge_memory(const Surroundings& surroundings, Findings& findings);
void judge_blas(const Surroundings& surroundings, Findings& findings);
void judge_xla_flags(const Surroundings& surroundings, Findings& findings);
void judge_jax(const Surroundings& surroundings, Findings& findings);
void judge_jax_pool(const Surroundings& surroundings, Findings& findings);
void judge_cuda(const Surroundings& surroundings, Findings& findings);
void judge_links(const Surroundings& surroundings, Findings& findings);
void judge_visible_gpus(const Surroundings& surroundings, Findings& findings);
void judge_nccl(const Surroundings& surroundings, Findings& findings);
void judge_tiles(const Surroundings& surroundings, Findings& findings);
void judge_mpi(const Surroundings& surroundings, Findings& findings);
void judge_slurm(const Surroundings& surroundings, Findings& findings);

}  // namespace shardsolve::cli::doctor
