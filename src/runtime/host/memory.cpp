#include <shardsolve/plan.hpp>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

namespace shardsolve {
namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

std::int64_t read_number(const char* path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? number : unlimited;  // "max", or no such file
}

std::int64_t machine_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::int64_t kilobytes = 0;
  std::string unit;
  while (file >> key >> kilobytes >> unit) {
    if (key == "MemAvailable:") {
      return 1024 * kilobytes;
    }
  }
  return unlimited;
}

/// What the control group (version 2) still allows.
std::int64_t group_memory() {
  const std::int64_t limit = read_number("/sys/fs/cgroup/memory.max");
  const std::int64_t used = read_number("/sys/fs/cgroup/memory.current");
  return limit == unlimited || used == unlimited ? unlimited
                                                 : std::max<std::int64_t>(limit - used, 0);
}

}  // namespace

std::int64_t available_host_memory() { return std::min(machine_memory(), group_memory()); }

}  // namespace shardsolve
