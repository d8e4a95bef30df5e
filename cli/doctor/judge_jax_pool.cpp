// How JAX takes the memory of GPUs: most of it at the start, unless it is told otherwise.

#include "findings.hpp"
#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace shardsolve::cli::doctor {
namespace {

constexpr double max_of_it = 0.95;  // of a GPU; cuBLAS and shardsolve take some hundred MB besides

void judge_fraction(const Surroundings& s, Findings& findings) {
  const std::string current = trimmed(value_of(s.environment, "XLA_CLIENT_MEM_FRACTION"));
  const std::string older = trimmed(value_of(s.environment, "XLA_PYTHON_CLIENT_MEM_FRACTION"));
  if (!current.empty() && !older.empty()) {
    findings.push_back({Severity::error, "jax-pool-fraction",
                        "XLA_CLIENT_MEM_FRACTION and XLA_PYTHON_CLIENT_MEM_FRACTION are both set",
                        "JAX refuses to start on a GPU then",
                        "unset XLA_PYTHON_CLIENT_MEM_FRACTION, the older name"});
    return;
  }
  const std::string& text = current.empty() ? older : current;
  if (text.empty()) {
    return;
  }
  const std::string setting = fmt::format(
      "{}={}", current.empty() ? "XLA_PYTHON_CLIENT_MEM_FRACTION" : "XLA_CLIENT_MEM_FRACTION",
      text);
  const auto fraction = to_number<double>(text);
  if (!fraction || !(*fraction > 0.0)) {
    findings.push_back({Severity::error, "jax-pool-fraction", setting,
                        "it is no number above 0: JAX does not start on a GPU",
                        "give the share of a GPU's memory, 0.75 by default"});
  } else if (*fraction > max_of_it) {
    findings.push_back({Severity::warning, "jax-pool-fraction", setting,
                        "cuBLAS and shardsolve need some hundred MB of each GPU beside JAX's pool: "
                        "the first solve may find none",
                        "0.9 or less"});
  }
}

void judge_preallocation(const Surroundings& s, Findings& findings) {
  const std::string text = value_of(s.environment, "XLA_PYTHON_CLIENT_PREALLOCATE");
  constexpr std::array off{"false", "False", "0"};
  if (std::find(off.begin(), off.end(), text) != off.end()) {
    findings.push_back(
        {Severity::note, "jax-pool-grows", fmt::format("XLA_PYTHON_CLIENT_PREALLOCATE={}", text),
         "JAX's pool grows in pieces: workspace in one piece may not be found though "
         "enough memory is free",
         "unset it where shardsolve says that the pool has not enough in one piece"});
    return;
  }
  constexpr std::array meant_off{"off", "no", "n", "f", "false"};
  if (std::find(meant_off.begin(), meant_off.end(), lower_case(text)) != meant_off.end()) {
    findings.push_back({Severity::warning, "jax-preallocate-value",
                        fmt::format("XLA_PYTHON_CLIENT_PREALLOCATE={}", text),
                        "JAX takes everything but 'false', 'False' and '0' for true",
                        "export XLA_PYTHON_CLIENT_PREALLOCATE=false"});
  }
}

void judge_allocator(const Surroundings& s, Findings& findings) {
  const std::string allocator =
      lower_case(trimmed(value_of(s.environment, "XLA_PYTHON_CLIENT_ALLOCATOR")));
  constexpr std::array known{"", "default", "platform", "bfc", "cuda_async", "vmm"};
  const std::string setting = fmt::format("XLA_PYTHON_CLIENT_ALLOCATOR={}", allocator);
  if (std::find(known.begin(), known.end(), allocator) == known.end()) {
    findings.push_back({Severity::error, "jax-allocator", setting,
                        "JAX does not know it, and does not start on a GPU",
                        "default, platform, bfc, cuda_async or vmm"});
  } else if (allocator == "platform") {
    findings.push_back({Severity::warning, "jax-allocator", setting,
                        "every allocation then asks the driver, which stops all GPUs: for finding "
                        "faults only",
                        "unset XLA_PYTHON_CLIENT_ALLOCATOR"});
  }
}

/// Memory that others hold: as a rule a JAX that has taken three quarters.
void judge_taken_memory(const Surroundings& s, Findings& findings) {
  for (std::size_t i = 0; i < s.cuda.gpus.size(); ++i) {
    const mesh::GpuFacts& gpu = s.cuda.gpus[i];
    if (!gpu.free_memory || *gpu.free_memory >= gpu.memory / 2) {
      continue;
    }
    findings.push_back(
        {Severity::warning, "gpu-memory-taken",
         fmt::format("GPU {} has {:.3g} of {:.3g} GB free", i,
                     static_cast<double>(*gpu.free_memory) / giga,
                     static_cast<double>(gpu.memory) / giga),
         "another program holds the rest; a JAX process takes three quarters when it starts",
         "end that program (nvidia-smi lists them), choose other GPUs, or give its JAX a smaller "
         "XLA_PYTHON_CLIENT_MEM_FRACTION"});
  }
}

}  // namespace

void judge_jax_pool(const Surroundings& s, Findings& findings) {
  if (!s.has_gpu()) {
    return;
  }
  judge_fraction(s, findings);
  judge_preallocation(s, findings);
  judge_allocator(s, findings);
  judge_taken_memory(s, findings);
}

}  // namespace shardsolve::cli::doctor
