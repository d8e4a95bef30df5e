/// The calls about general square matrices.
#pragma once

#include "jax/call_table.hpp"

#include <vector>

namespace shardsolve::jax {

std::vector<CallRow> lu_calls();

}  // namespace shardsolve::jax
