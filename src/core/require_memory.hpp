/// The refusal of a job that does not fit.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardsolve::core {

/// Throws Error(out_of_memory) with both figures if `needed` bytes on each of `ranks` devices
/// exceed `available` bytes on each. `job` is named; `otherwise` is what to use beside more memory.
void require_memory(std::int64_t needed, std::int64_t available, std::int64_t ranks,
                    std::string_view job, std::string_view otherwise);

}  // namespace shardsolve::core
