/// How a process was started, by the variables that launchers set.
#pragma once

#include "surroundings.hpp"

#include <cstdint>

namespace shardsolve::cli::doctor {

/// `processes`: how many were started together.
Launch launch_of(const Environment& environment, std::int64_t processes);

}  // namespace shardsolve::cli::doctor
