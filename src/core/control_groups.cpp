#include "core/control_groups.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace shardsolve::core {
namespace {

using Path = std::filesystem::path;

/// The first number of a file; none if it has another word there, "max", or does not exist.
std::optional<std::int64_t> number_in(const Path& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

std::optional<double> quota_of(const Path& group, bool unified) {
  std::ifstream both(group / "cpu.max");
  std::ifstream quota_alone(group / "cpu.cfs_quota_us");
  std::ifstream period_alone(group / "cpu.cfs_period_us");
  double quota = 0.0;
  double period = 0.0;
  (unified ? both : quota_alone) >> quota;  // fails at "max"
  (unified ? both : period_alone) >> period;
  return quota > 0.0 && period > 0.0 ? std::optional(quota / period) : std::nullopt;
}

/// What a group has left of a limit if so much of what it uses does not count.
std::optional<std::int64_t> left(const Path& limit, const Path& used, std::int64_t free = 0) {
  const auto most = number_in(limit);
  const auto taken = std::max<std::int64_t>(0, number_in(used).value_or(0) - free);
  return most ? std::optional(std::max<std::int64_t>(0, *most - taken)) : std::nullopt;
}

/// Bytes of files that the system keeps in memory, of the group and those in it.
std::int64_t kept_files(const Path& group, bool unified) {
  std::ifstream file(group / "memory.stat");
  const std::string prefix = unified ? "" : "total_";
  std::int64_t sum = 0;
  std::string key;
  for (std::int64_t bytes = 0; file >> key >> bytes;) {
    sum += key == prefix + "active_file" || key == prefix + "inactive_file" ? bytes : 0;
  }
  return sum;
}

std::optional<std::int64_t> memory_left_in(const Path& group, bool unified) {
  const Path limit = group / (unified ? "memory.max" : "memory.limit_in_bytes");
  const Path used = group / (unified ? "memory.current" : "memory.usage_in_bytes");
  // Most groups have no limit, and those files take longer to read.
  return number_in(limit) ? left(limit, used, kept_files(group, unified)) : std::nullopt;
}

/// Whether a list, "cpu,cpuacct", has that controller.
bool has(const std::string& controllers, const std::string& controller) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == controller) {
      return true;
    }
  }
  return false;
}

/// The least that limit_of(group, unified) gives. `unified`: version 2.
template <class LimitOf>
auto least_of(const ControlGroups& groups, const std::string& controller, LimitOf limit_of) {
  decltype(limit_of(groups.tree, true)) least;
  std::ifstream own(groups.own);
  std::string controllers;
  std::string path;
  // "4:cpu,cpuacct:/a/b"; version 2: "0::/a/b"
  while (std::getline(own, controllers, ':') && std::getline(own, controllers, ':') &&
         std::getline(own, path)) {
    const bool unified = controllers.empty();
    if (!unified && !has(controllers, controller)) {
      continue;
    }
    const Path root = unified ? groups.tree : groups.tree / controller;
    for (Path group = path;; group = group.parent_path()) {
      const auto limit = limit_of(root / group.relative_path(), unified);
      if (limit) {
        least = std::min(least.value_or(*limit), *limit);
      }
      if (!group.has_relative_path()) {
        break;
      }
    }
  }
  return least;
}

}  // namespace

std::optional<double> cpu_quota(const ControlGroups& groups) {
  return least_of(groups, "cpu", quota_of);
}

std::optional<std::int64_t> threads_left(const ControlGroups& groups) {
  return least_of(groups, "pids", [](const Path& group, bool) {
    return left(group / "pids.max", group / "pids.current");
  });
}

std::optional<std::int64_t> memory_left(const ControlGroups& groups) {
  return least_of(groups, "memory", memory_left_in);
}

}  // namespace shardsolve::core
