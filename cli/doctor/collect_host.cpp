// CPU, memory and limits, as Linux tells them.

#include "collect.hpp"
#include "core/control_groups.hpp"
#include "text.hpp"

#include <shardsolve/plan.hpp>

#include <fmt/format.h>

#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>

namespace shardsolve::cli::doctor {
namespace {

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// What stands behind the first "key :" of such a file; empty if nothing does.
std::string entry(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && trimmed(line.substr(0, colon)) == key) {
      return trimmed(line.substr(colon + 1));
    }
  }
  return "";
}

/// Bytes: the entries of /proc/meminfo are in kB.
std::int64_t memory_entry(const std::string& key) {
  std::istringstream text(entry("/proc/meminfo", key));
  std::int64_t kilobytes = 0;
  text >> kilobytes;
  return 1024 * kilobytes;
}

std::optional<std::int64_t> limit(__rlimit_resource resource) {
  rlimit limits{};
  return ::getrlimit(resource, &limits) == 0 && limits.rlim_cur != RLIM_INFINITY
             ? std::optional(static_cast<std::int64_t>(limits.rlim_cur))
             : std::nullopt;
}

/// Those that /proc shows.
std::int64_t threads_of_this_user() {
  std::int64_t threads = 0;
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
    const std::string status = (process.path() / "status").string();
    const std::string user = entry(status.c_str(), "Uid");  // real, effective, ...
    if (to_number<::uid_t>(user.substr(0, user.find('\t'))) == ::getuid()) {
      threads += to_number<std::int64_t>(entry(status.c_str(), "Threads")).value_or(0);
    }
  }
  return threads;
}

std::int64_t allowed_cores(std::int64_t otherwise) {
  cpu_set_t cores;
  return ::sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : otherwise;
}

}  // namespace

Host look_at_host() {
  Host host;
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  host.name = name.data();
  host.cpu = entry("/proc/cpuinfo", "model name");
  const std::string flags = fmt::format(" {} ", entry("/proc/cpuinfo", "flags"));
  host.avx2 = flags.find(" avx2 ") != std::string::npos;
  host.cores = std::max<long>(1, ::sysconf(_SC_NPROCESSORS_ONLN));
  host.allowed_cores = allowed_cores(host.cores);
  host.quota = core::cpu_quota();
  host.memory = memory_entry("MemTotal");
  host.available_memory = std::min(available_host_memory(), host.memory);
  host.address_space = limit(RLIMIT_AS);
  if (::geteuid() != 0) {  // whom it does not hold
    host.threads = limit(RLIMIT_NPROC);
    host.threads_in_use = host.threads ? threads_of_this_user() : 0;
  }
  host.group_threads = core::threads_left();
  host.strict_commit = first_line("/proc/sys/vm/overcommit_memory") == "2";
  host.commit_left = memory_entry("CommitLimit") - memory_entry("Committed_AS");
  struct statvfs shared{};
  if (::statvfs("/dev/shm", &shared) == 0) {
    host.shared_memory = static_cast<std::int64_t>(shared.f_bavail * shared.f_frsize);
  }
  return host;
}

Driver look_at_driver(const std::filesystem::path& folder) {
  Driver driver;
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul ..."
  std::istringstream words(first_line(folder / "version"));
  for (std::string word; driver.version.empty() && words >> word;) {
    if (version_numbers(word).size() > 1) {
      driver.version = word;
    }
  }
  std::error_code error;
  for (const auto& gpu : std::filesystem::directory_iterator(folder / "gpus", error)) {
    ++driver.gpus;
    constexpr std::string_view name = "GPU UUID:";
    std::ifstream file(gpu.path() / "information");
    for (std::string line; std::getline(file, line);) {
      if (line.compare(0, name.size(), name) == 0) {
        driver.uuids[lower_case(gpu.path().filename().string())] =
            trimmed(line.substr(name.size()));
      }
    }
  }
  return driver;
}

}  // namespace shardsolve::cli::doctor
