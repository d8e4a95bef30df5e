/// What two products tell of an operator that cannot be looked at.
#pragma once

#include <shardsolve/diagnose.hpp>
#include <shardsolve/dtype.hpp>
#include <shardsolve/krylov.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/run_options.hpp>
#include <shardsolve/slab_layout.hpp>

namespace shardsolve::krylov {

/// With vectors u and v of random numbers: A u twice, A v, A (u + v). Four products, on a mesh of
/// CPU ranks.
template <Scalar T>
ProductFigures probe_products(Mesh& mesh, const Operator<T>& a, const SlabLayout& layout,
                              const RunOptions& run);

}  // namespace shardsolve::krylov
