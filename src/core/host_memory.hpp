/// Memory of this process for matrices.
#pragma once

#include <cstddef>
#include <memory>

namespace shardsolve::core {

/// Aligned to cache lines, not initialised; large pieces in huge pages where the system has them: a
/// column-major matrix touches another page with every column. Released with the last copy. Null if
/// there is no memory.
std::shared_ptr<void> allocate_host_memory(std::size_t bytes);

}  // namespace shardsolve::core
