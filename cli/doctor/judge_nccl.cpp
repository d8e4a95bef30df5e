// Settings of NCCL, which JAX's own collectives use, and shardsolve between processes without CUDA
// IPC.

#include "findings.hpp"
#include "text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>
#include <vector>

namespace shardsolve::cli::doctor {
namespace {

struct Setting {
  std::string text;    ///< "NCCL_P2P_DISABLE=1"
  std::string value;   ///< empty if it is not set
  std::string remedy;  ///< how to be rid of it
};

/// The environment goes before the files.
Setting setting(const Surroundings& s, const std::string& name) {
  const auto of_file = s.nccl.settings.find(name);
  if (s.environment.count(name) == 0 && of_file != s.nccl.settings.end()) {
    const std::string& file = s.nccl.file_of.at(name);
    return {fmt::format("{}={} (in {})", name, of_file->second, file), trimmed(of_file->second),
            fmt::format("remove it from {}", file)};
  }
  const std::string value = trimmed(value_of(s.environment, name));
  return {fmt::format("{}={}", name, value), value, fmt::format("unset {}", name)};
}

/// How NCCL reads a switch: every number but 0 is on.
bool is_on(const std::string& value) {
  const auto number = to_number<std::int64_t>(value);
  return number && *number != 0;
}

void judge_switch(const Surroundings& s, const char* name, Severity severity, const char* code,
                  const char* why, Findings& findings) {
  const Setting set = setting(s, name);
  if (is_on(set.value)) {
    findings.push_back({severity, code, set.text, why, set.remedy});
  }
}

/// Switches that say what NCCL does anyway.
void judge_defaults(const Surroundings& s, Findings& findings) {
  std::vector<std::string> found;
  std::vector<std::string> remedies;
  for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"}) {
    const Setting set = setting(s, name);
    const auto number = to_number<std::int64_t>(set.value);
    // In the environment it may be there to overrule a file.
    if (number && *number == 0 && s.nccl.settings.count(name) == 0) {
      found.push_back(set.text);
      remedies.push_back(set.remedy);
    }
  }
  if (!found.empty()) {
    findings.push_back({Severity::note, "nccl-default", fmt::format("{}", fmt::join(found, ", ")),
                        "it is the default, so it makes nothing faster",
                        fmt::format("{}", fmt::join(remedies, ", "))});
  }
}

}  // namespace

void judge_nccl(const Surroundings& s, Findings& findings) {
  if (!s.has_gpu()) {
    return;
  }
  judge_switch(s, "NCCL_P2P_DISABLE", Severity::warning, "nccl-p2p-off",
               "NCCL does not use NVLink or peer access: JAX's collectives go through the host, "
               "many times slower. shardsolve asks NCCL only between processes without CUDA IPC",
               findings);
  const Setting level = setting(s, "NCCL_P2P_LEVEL");
  if (lower_case(level.value) == "loc" || level.value == "0") {
    findings.push_back({Severity::warning, "nccl-p2p-off", level.text,
                        "at this level NCCL never uses peer access: JAX's collectives go through "
                        "the host, many times slower. shardsolve asks NCCL only between processes "
                        "without CUDA IPC",
                        level.remedy});
  }
  judge_switch(s, "NCCL_SHM_DISABLE", Severity::warning, "nccl-shm-off",
               "GPUs without peer access then talk through the network, even inside one machine",
               findings);
  judge_switch(s, "NCCL_IB_DISABLE", Severity::note, "nccl-ib-off",
               "between machines NCCL uses TCP in place of InfiniBand or RoCE; inside one it makes "
               "no difference",
               findings);
  judge_defaults(s, findings);
}

}  // namespace shardsolve::cli::doctor
