#include "findings.hpp"

#include <algorithm>

namespace shardsolve::cli::doctor {

std::string_view name(Severity severity) {
  switch (severity) {
    case Severity::note:
      return "note";
    case Severity::warning:
      return "warning";
    case Severity::error:
      break;
  }
  return "error";
}

Findings judge(const Surroundings& surroundings) {
  Findings findings;
  for (const auto part : {judge_cuda, judge_links, judge_visible_gpus, judge_mpi, judge_slurm,
                          judge_xla_flags, judge_jax, judge_jax_pool, judge_cores, judge_memory,
                          judge_blas, judge_nccl, judge_tiles}) {
    part(surroundings, findings);
  }
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& one, const Finding& other) {
    return one.severity > other.severity;
  });
  return findings;
}

}  // namespace shardsolve::cli::doctor
