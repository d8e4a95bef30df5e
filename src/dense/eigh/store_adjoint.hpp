/// Z^H on the slabs that had A.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>

namespace shardsolve::dense::eigh {

/// `z`: this rank's columns of the n x `count` matrix Z (vectors_on()), ready on the update queue;
/// `target`, count x this rank's width of A: its columns of Z^H. Waits.
template <Scalar T>
void store_adjoint(mesh::Rank& rank, const SlabLayout& layout, std::int64_t count,
                   MatrixView<const T> z, MatrixView<T> target);

/// Elements of workspace that a rank takes.
std::int64_t store_adjoint_elements(const SlabLayout& layout);

}  // namespace shardsolve::dense::eigh
