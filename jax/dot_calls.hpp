/// The calls of the dot product whose bits do not depend on the device: runtime/fixed_dot.hpp.
#pragma once

#include "jax/call_table.hpp"

#include <vector>

namespace shardsolve::jax {

std::vector<CallRow> dot_calls();

}  // namespace shardsolve::jax
