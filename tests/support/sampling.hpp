/// Short and long forms of tests that take every one of many cases.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace shardsolve::testing {

/// With SHARDSOLVE_TEST_ALL_FAULTS in the environment nothing is left out.
inline bool all_faults() { return std::getenv("SHARDSOLVE_TEST_ALL_FAULTS") != nullptr; }

/// About `some` of 0 ... count - 1, spread evenly; `turn` moves them on. In the long form all.
inline std::vector<std::int64_t> sample(std::int64_t count, std::int64_t some, std::int64_t turn) {
  const std::int64_t stride = all_faults() ? 1 : std::max<std::int64_t>(count / some, 1);
  std::vector<std::int64_t> taken;
  for (std::int64_t i = turn % stride; i < count; i += stride) {
    taken.push_back(i);
  }
  return taken;
}

}  // namespace shardsolve::testing
