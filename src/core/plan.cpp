#include "core/require_memory.hpp"
#include "core/tile_rules.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/plan.hpp>

#include <fmt/format.h>

namespace shardsolve {

void core::require_memory(std::int64_t needed, std::int64_t available, std::int64_t ranks,
                          std::string_view job, std::string_view otherwise) {
  if (needed > available) {
    constexpr double gigabyte = 1e9;
    throw Error(
        ErrorKind::out_of_memory,
        fmt::format("{} needs {:.2f} GB on each of {} devices; {:.2f} GB are free for each. Use "
                    "devices with more memory of their own (CPU devices share theirs), {}",
                    job, static_cast<double>(needed) / gigabyte, ranks,
                    static_cast<double>(available) / gigabyte, otherwise));
  }
}

void Plan::require(std::int64_t needed, std::int64_t available, std::string_view job) const {
  core::require_memory(needed, available, ranks, job,
                       "a narrower dtype or, where it is yours to choose, a smaller tile");
}

std::int64_t default_tile(std::int64_t n, std::int64_t ranks, Dtype) {
  return core::cpu_tile(n, ranks);
}

}  // namespace shardsolve
