/// A matrix that is not much taller than wide as Q R, with R where solves want it.
#pragma once

#include "dense/qr/factor.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::qr {

/// As factor(), by reflections of whole columns in double precision (householder.hpp), which take
/// fewer operations, and as many whatever the rank of A. `rows`: how A is cut by rows.
template <Scalar T>
Factored<T> factor_in_columns(mesh::Rank& rank, const SlabLayout& rows, MatrixView<const T> a,
                              const std::vector<double>& maxima, MatrixView<T> q);

/// Bytes of workspace on a rank.
std::int64_t bytes_in_columns(const SlabLayout& rows, std::int64_t columns, Dtype dtype);

}  // namespace shardsolve::dense::qr
