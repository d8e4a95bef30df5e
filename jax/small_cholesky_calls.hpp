/// Small Hermitian positive definite systems on a CPU device that is alone.
#pragma once

#include "jax/call_table.hpp"

#include <vector>

namespace shardsolve::jax {

std::vector<CallRow> small_cholesky_calls();

}  // namespace shardsolve::jax
