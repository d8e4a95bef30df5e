/// Work that the ranks of a mesh share.
#pragma once

#include "sparse/block_cholesky.hpp"

#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>

namespace shardsolve::fbpinn {

/// Pieces of work go to whichever rank is free. `mesh` and `run` must outlive what is returned.
/// `name`: in traces. Throws Error(unsupported) unless the ranks are CPU devices of this process.
sparse::ForEach on_ranks(Mesh& mesh, const RunOptions& run, const char* name);

}  // namespace shardsolve::fbpinn
