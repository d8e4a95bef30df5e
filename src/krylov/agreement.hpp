/// Whether the processes of a mesh call for the same solve.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/krylov.hpp>
#include <shardsolve/slab_layout.hpp>

namespace shardsolve::krylov {

/// Throws Error(invalid_argument), naming what differs, unless all ranks have the same options, cut
/// b alike and all have a preconditioner or none: with others they would wait for each other for
/// good. Waits; to be called where ranks lie in several processes.
void require_same_solve(mesh::Rank& rank, const SlabLayout& layout, const Options& options,
                        bool has_preconditioner);

}  // namespace shardsolve::krylov
