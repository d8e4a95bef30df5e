/// Singular values and polar factors of matrices that are cut by rows, as rows of the call table.
#pragma once

#include "jax/call_table.hpp"

#include <vector>

namespace shardsolve::jax {

std::vector<CallRow> svd_calls();

}  // namespace shardsolve::jax
