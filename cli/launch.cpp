#include "launch.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace shardsolve::cli {

std::int64_t launched_processes() {
  constexpr std::array variables = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                    "SLURM_STEP_NUM_TASKS"};
  std::int64_t most = 1;
  for (const char* variable : variables) {
    const char* value = std::getenv(variable);
    const std::string_view text = value == nullptr ? "" : value;
    std::int64_t count = 1;
    std::from_chars(text.data(), text.data() + text.size(), count);
    most = std::max(most, count);
  }
  return most;
}

}  // namespace shardsolve::cli
