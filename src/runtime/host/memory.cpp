#include "core/control_groups.hpp"

#include <shardsolve/plan.hpp>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

namespace shardsolve {
namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max();

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

}  // namespace

std::int64_t available_host_memory() {
  return std::min(machine_memory(), core::memory_left().value_or(unlimited));
}

}  // namespace shardsolve
