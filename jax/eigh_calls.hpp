/// The calls about eigenvalues of Hermitian matrices.
#pragma once

#include "jax/call_table.hpp"

#include <vector>

namespace shardsolve::jax {

std::vector<CallRow> eigh_calls();

}  // namespace shardsolve::jax
