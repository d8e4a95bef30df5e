/// The transpose of a matrix on a mesh.
#pragma once

#include "mesh/rank.hpp"
#include "sparse/parts.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/sparse.hpp>

namespace shardsolve::sparse {

/// The rows of A^T, or of A^H if `conjugated`, on this rank: as many as it has columns of A,
/// columns counted through all of A^T and ascending. All ranks together. Waits.
template <Scalar T>
CsrMatrix<T> transposed_rows(mesh::Rank& rank, const Parts<T>& a, bool conjugated);

}  // namespace shardsolve::sparse
