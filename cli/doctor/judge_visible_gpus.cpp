// CUDA_VISIBLE_DEVICES: which GPUs a process sees, and in which order.

#include "findings.hpp"
#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace shardsolve::cli::doctor {
namespace {

constexpr const char* variable = "CUDA_VISIBLE_DEVICES";

bool is_identifier(const std::string& text) {
  return text.compare(0, 4, "GPU-") == 0 || text.compare(0, 4, "MIG-") == 0;
}

/// What is wrong with one entry; empty if nothing is. `earlier`: those before it.
std::string fault(const std::string& entry, const std::set<std::string>& earlier,
                  std::int64_t gpus) {
  const auto number = to_number<std::int64_t>(entry);
  if (entry.empty()) {
    return "holds an empty entry";
  }
  if (!is_identifier(entry) && !number) {
    return fmt::format("holds '{}', which is neither a number nor GPU-... or MIG-...", entry);
  }
  if (number && gpus > 0 && *number >= gpus) {
    return fmt::format("holds {}, and the GPUs here are 0 to {}", *number, gpus - 1);
  }
  return earlier.count(entry) != 0 ? fmt::format("holds {} twice", entry) : "";
}

}  // namespace

void judge_visible_gpus(const Surroundings& s, Findings& findings) {
  if (s.environment.count(variable) == 0 || s.driver.gpus == 0) {
    return;
  }
  const Severity severity = s.job.cuda ? Severity::error : Severity::warning;
  const std::string text = trimmed(value_of(s.environment, variable));
  const std::string setting = fmt::format("{}='{}'", variable, text);
  const std::vector<std::string> entries = split(text, ',');
  if (text.empty() || trimmed(entries.front()) == "-1" || text == "NoDevFiles") {
    findings.push_back({severity, "gpus-hidden",
                        fmt::format("{} hides all {} GPUs", setting, s.driver.gpus),
                        "CUDA and JAX see none", fmt::format("unset {}", variable)});
    return;
  }
  std::set<std::string> earlier;
  for (const std::string& one : entries) {
    const std::string entry = trimmed(one);
    if (entry == "-1") {
      break;  // the usual way to end a list
    }
    const std::string what = fault(entry, earlier, s.driver.gpus);
    if (!what.empty()) {
      findings.push_back(
          {severity, "visible-devices-malformed", fmt::format("{} {}", setting, what),
           "CUDA ignores that entry and all after it, or shows no GPU at all",
           fmt::format("export {}=0,1 (numbers of nvidia-smi -L, commas between)", variable)});
      return;
    }
    earlier.insert(entry);
  }
  const auto visible = static_cast<std::int64_t>(earlier.size());
  if (visible < s.driver.gpus) {
    findings.push_back({Severity::note, "gpus-hidden",
                        fmt::format("{} leaves {} of {} GPUs", setting, visible, s.driver.gpus),
                        "the others are not used, and those that are left are counted from 0",
                        fmt::format("unset {} if that is not meant", variable)});
  }
}

}  // namespace shardsolve::cli::doctor
