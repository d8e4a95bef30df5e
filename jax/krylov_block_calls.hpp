/// Preconditioners of factored blocks: krylov/local_blocks.hpp.
#pragma once

#include "jax/call_table.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace shardsolve::jax {

/// krylov_factor_blocks, whose results are behind their ends 0, and krylov_solve_blocks.
std::vector<CallRow> krylov_block_calls();

/// What is to be known of such a preconditioner before its factors are made, as JSON. `asked`, by
/// name: kind, number (krylov::BlockKind); dtype; pointers, columns; values, or null where they are
/// not known; blocks, or count of those that blocks_of() cuts, for which values are needed.
/// Throws what the function of krylov::Operator throws.
std::string plan_krylov_blocks(const nlohmann::json& asked);

}  // namespace shardsolve::jax
