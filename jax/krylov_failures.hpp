/// Krylov solves of JAX programs that have not converged, until somebody asks for them.
#pragma once

#include "runtime/krylov/ends.hpp"

#include <shardsolve/krylov.hpp>

#include <cstdint>
#include <string>

namespace shardsolve::jax {

/// Keeps it unless it has converged. `role`: a solve, of a tangent, of an adjoint.
void note_krylov_failure(const krylov::Report& report, const krylov::Problem& problem,
                         std::int64_t role);

/// Those since they were last asked for, the last 256 of them, as JSON.
std::string take_krylov_failures();

}  // namespace shardsolve::jax
