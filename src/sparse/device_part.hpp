/// What kernels read of a rank's share of a sparse matrix, in the memory of its GPU.
#pragma once

#include "mesh/rank.hpp"
#include "runtime/device.hpp"
#include "sparse/parts.hpp"

#include <shardsolve/dtype.hpp>

namespace shardsolve::sparse {

/// Sets part.on_gpu: copies of the lists of `part`, which stays as it is. Waits.
/// Throws Error(out_of_memory).
template <Scalar T>
void copy_to_gpu(mesh::Rank& rank, runtime::Device& device, Part<T>& part);

}  // namespace shardsolve::sparse
