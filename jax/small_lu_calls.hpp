/// Small general systems on a CPU device that is alone.
#pragma once

#include "jax/call_table.hpp"

#include <vector>

namespace shardsolve::jax {

std::vector<CallRow> small_lu_calls();

}  // namespace shardsolve::jax
