/// What the control groups of this process leave it: of each limit the least of its own group and
/// of those around it, version 2 or 1; nothing where there is no limit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace shardsolve::core {

/// Where the system tells of control groups. In a container the groups may be named by paths of the
/// host, which are not in its tree: then the root of the tree counts, which is the container's.
struct ControlGroups {
  std::filesystem::path own = "/proc/self/cgroup";
  std::filesystem::path tree = "/sys/fs/cgroup";
};

/// Cores' worth of CPU time.
std::optional<double> cpu_quota(const ControlGroups& groups = {});
/// Threads and processes that may still be started.
std::optional<std::int64_t> threads_left(const ControlGroups& groups = {});
/// Bytes that may still be taken. Files that the system keeps in memory go when they are taken.
std::optional<std::int64_t> memory_left(const ControlGroups& groups = {});

}  // namespace shardsolve::core
