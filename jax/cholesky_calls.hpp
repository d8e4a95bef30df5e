/// The calls about Hermitian positive definite matrices.
#pragma once

#include "jax/call_table.hpp"

#include <vector>

namespace shardsolve::jax {

std::vector<CallRow> cholesky_calls();

}  // namespace shardsolve::jax
