/// Preconditioners that each device applies by itself: krylov/local_blocks.hpp,
/// local_chebyshev.hpp.
#pragma once

#include "jax/call_table.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace shardsolve::jax {

/// Blocks: krylov_factor_blocks, whose results are 0 behind their ends, and krylov_solve_blocks.
/// Polynomials: krylov_chebyshev_begin and, after each product, krylov_chebyshev_step.
std::vector<CallRow> krylov_preconditioner_calls();

/// What is to be known of such a preconditioner before its factors are made, as JSON. `asked`, by
/// name: kind, number (krylov::BlockKind); dtype; pointers, columns; values, or null where they are
/// not known; blocks, or count of those that blocks_of() cuts, for which values are needed.
/// Throws what the function of krylov::Operator throws.
std::string plan_krylov_blocks(const nlohmann::json& asked);

/// krylov::chebyshev_bounds() of a matrix, as JSON. `asked`: dtype, pointers, columns, values.
std::string krylov_chebyshev_bounds(const nlohmann::json& asked);

/// krylov::largest_eigenvalue() of a level of multigrid, as JSON. `asked`: likewise.
std::string krylov_largest_eigenvalue(const nlohmann::json& asked);

/// krylov::inverse_of() of the coarsest one. `asked`: likewise, and `inverse`, which receives it by
/// rows.
std::string krylov_inverse(const nlohmann::json& asked);

}  // namespace shardsolve::jax
