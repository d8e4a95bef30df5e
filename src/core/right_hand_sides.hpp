/// How many right-hand sides there may be.
#pragma once

#include <cstdint>

namespace shardsolve::core {

/// Throws Error(invalid_argument) unless it is 0 to SlabLayout::largest_size.
void require_columns(std::int64_t columns);

}  // namespace shardsolve::core
