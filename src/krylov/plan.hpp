/// What a solve is refused for before any work.
#pragma once

#include <shardsolve/krylov.hpp>

#include <cstdint>

namespace shardsolve::krylov {

/// Throws Error(invalid_argument) if they make no sense.
void require_options(const Options& options);

/// Throws Error(out_of_memory) with both figures, of each rank, if the workspace is not there.
void require_workspace(const Options& options, std::int64_t wanted, std::int64_t available,
                       std::int64_t ranks);

}  // namespace shardsolve::krylov
