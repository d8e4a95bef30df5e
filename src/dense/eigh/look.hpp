/// The look that eigh() takes at a matrix, for those who find its eigenvalues by other means.
#pragma once

#include <shardsolve/mesh.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/sharded.hpp>

namespace shardsolve::dense::eigh {

/// ok, nonfinite_input or not_hermitian, with the entry, as of eigh(); `a` is only read.
template <Scalar T>
Outcome look_at(Mesh& mesh, const ShardedMatrix<T>& a, const RunOptions& options);

}  // namespace shardsolve::dense::eigh
