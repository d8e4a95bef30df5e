/// The local call of a product with a sparse matrix: sparse/local_product.hpp.
#pragma once

#include "jax/call_table.hpp"

#include <vector>

namespace shardsolve::jax {

std::vector<CallRow> sparse_calls();

}  // namespace shardsolve::jax
