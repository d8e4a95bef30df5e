/// Matrices and right-hand sides in the memory of a mesh's devices.
#pragma once

#include <shardsolve/dtype.hpp>
#include <shardsolve/export.hpp>
#include <shardsolve/mesh.hpp>
#include <shardsolve/sharded.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>

namespace shardsolve {

/// Memory for a matrix where the ranks of `mesh` compute: slab r on the device of rank r, for the
/// ranks of this process, not initialised. Throws Error(invalid_argument) if the layout has not as
/// many slabs as the mesh has ranks, Error(out_of_memory) with figures if it does not fit.
template <Scalar T>
SHARDSOLVE_EXPORT ShardedMatrix<T> make_matrix(Mesh& mesh, const SlabLayout& layout);
/// Likewise for n x `columns` right-hand sides.
template <Scalar T>
SHARDSOLVE_EXPORT RightHandSides<T> make_right_hand_sides(Mesh& mesh, const SlabLayout& layout,
                                                          std::int64_t columns);

/// Copies every slab of `source` to that of `target`, in the process of its rank: like all calls,
/// all processes of the mesh make it. Each may lie on the host or on the devices of `mesh`. Throws
/// Error(invalid_argument) if their layouts are not those of the mesh and each other, if a process
/// has not given the slab of its own rank, or if one lies on GPUs and the mesh has none; otherwise
/// as the calls of cholesky.hpp.
template <Scalar T>
SHARDSOLVE_EXPORT void copy(Mesh& mesh, const ShardedMatrix<T>& source,
                            const ShardedMatrix<T>& target);
template <Scalar T>
SHARDSOLVE_EXPORT void copy(Mesh& mesh, const RightHandSides<T>& source,
                            const RightHandSides<T>& target);

}  // namespace shardsolve
