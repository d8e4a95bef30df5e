#include "xla_flags.hpp"

#include <algorithm>

namespace shardsolve::cli::doctor {
namespace {

constexpr std::string_view blanks = " \t\n\r\v\f";

/// The next word from `at` on, which is moved behind it; quotes are taken off.
std::string next_word(std::string_view text, std::size_t& at) {
  std::string word;
  char quote = '\0';
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != '\0') {
      quote = c == quote ? '\0' : quote;
      if (quote != '\0') {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (blanks.find(c) != std::string_view::npos) {
      break;
    } else {
      word += c;
    }
  }
  return word;
}

XlaWord word_of(const std::string& text) {
  XlaWord word{text, "", std::nullopt};
  if (text.compare(0, 2, "--") == 0) {
    const std::size_t equals = std::min(text.find('='), text.size());
    word.name = text.substr(2, equals - 2);
    if (equals < text.size()) {
      word.value = text.substr(equals + 1);
    }
  }
  return word;
}

}  // namespace

std::vector<XlaWord> xla_words(std::string_view text) {
  std::vector<XlaWord> words;
  for (std::size_t at = 0; (at = text.find_first_not_of(blanks, at)) != std::string_view::npos;) {
    words.push_back(word_of(next_word(text, at)));
  }
  return words;
}

const std::set<std::string>& common_xla_switches() {
  static const std::set<std::string> names{
      "xla_allow_excess_precision",
      "xla_cpu_enable_concurrency_optimized_scheduler",
      "xla_cpu_enable_fast_math",
      "xla_cpu_enable_fast_min_max",
      "xla_cpu_multi_thread_eigen",
      "xla_cpu_use_thunk_runtime",
      "xla_dump_hlo_as_dot",
      "xla_dump_hlo_as_html",
      "xla_dump_hlo_as_proto",
      "xla_dump_hlo_as_text",
      "xla_gpu_deterministic_ops",
      "xla_gpu_enable_cublaslt",
      "xla_gpu_enable_cudnn_fmha",
      "xla_gpu_enable_fast_min_max",
      "xla_gpu_enable_highest_priority_async_stream",
      "xla_gpu_enable_latency_hiding_scheduler",
      "xla_gpu_enable_nccl_user_buffers",
      "xla_gpu_enable_pipelined_all_gather",
      "xla_gpu_enable_pipelined_all_reduce",
      "xla_gpu_enable_pipelined_reduce_scatter",
      "xla_gpu_enable_triton_gemm",
      "xla_gpu_enable_while_loop_double_buffering",
      "xla_gpu_exclude_nondeterministic_ops",
      "xla_gpu_shard_autotuning",
      "xla_gpu_strict_conv_algorithm_picker",
      "xla_gpu_triton_gemm_any",
      "xla_hlo_profile",
  };
  return names;
}

const std::set<std::string>& common_xla_flags() {
  static const std::set<std::string> names = [] {
    std::set<std::string> all{
        "xla_backend_extra_options",
        "xla_backend_optimization_level",
        "xla_cpu_collective_call_terminate_timeout_seconds",
        "xla_cpu_collective_call_warn_stuck_timeout_seconds",
        "xla_cpu_collective_timeout_seconds",
        "xla_cpu_max_isa",
        "xla_cpu_parallel_codegen_split_count",
        "xla_cpu_prefer_vector_width",
        "xla_disable_hlo_passes",
        "xla_dump_hlo_module_re",
        "xla_dump_hlo_pass_re",
        "xla_dump_to",
        "xla_force_host_platform_device_count",
        "xla_gpu_all_gather_combine_threshold_bytes",
        "xla_gpu_all_reduce_combine_threshold_bytes",
        "xla_gpu_autotune_level",
        "xla_gpu_collective_permute_decomposer_threshold",
        "xla_gpu_cuda_data_dir",
        "xla_gpu_enable_command_buffer",
        "xla_gpu_force_compilation_parallelism",
        "xla_gpu_memory_limit_slop_factor",
        "xla_gpu_per_fusion_autotune_cache_dir",
        "xla_gpu_reduce_scatter_combine_threshold_bytes",
    };
    all.insert(common_xla_switches().begin(), common_xla_switches().end());
    return all;
  }();
  return names;
}

std::size_t edit_distance(std::string_view one, std::string_view other) {
  // Optimal string alignment, by rows: `last` and `before` are the two above.
  std::vector<std::size_t> before(other.size() + 1);
  std::vector<std::size_t> last(other.size() + 1);
  std::vector<std::size_t> row(other.size() + 1);
  for (std::size_t j = 0; j <= other.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= one.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= other.size(); ++j) {
      const std::size_t changed = one[i - 1] == other[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + changed});
      if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[other.size()];
}

std::string nearest(const std::string& name, const std::set<std::string>& names) {
  constexpr std::size_t near = 2;  // three make "disable" of "enable"
  std::string underscored = name;
  std::replace(underscored.begin(), underscored.end(), '-', '_');
  std::size_t least = near + 1;
  std::string best;
  for (const std::string& one : names) {
    const std::size_t distance = edit_distance(underscored, one);
    if (distance < least) {
      least = distance;
      best = one;
    }
  }
  return best;
}

}  // namespace shardsolve::cli::doctor
