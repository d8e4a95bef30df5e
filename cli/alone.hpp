/// Commands that need no devices.
#pragma once

#include "options.hpp"

#include <functional>

namespace shardsolve::cli {

/// Runs `work`, which prints what it found and returns the exit code; what it throws is reported as
/// by other commands. Of several processes of mpirun only the first works: they would all say the
/// same.
int run_alone(const Options& options, const std::function<int()>& work);

}  // namespace shardsolve::cli
