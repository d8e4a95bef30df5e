/// QR by reflections, slab by slab: for what Gram matrices do not lead to an end.
#pragma once

#include "mesh/rank.hpp"
#include "runtime/qr_kernels.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>

namespace shardsolve::dense::qr {

/// q = Q R: Q, with Q^H Q = I to rounding whatever q is, in place of this rank's rows of q; R, n x
/// n with zeros below its diagonal, on the first rank. Over all ranks there are at least as many
/// rows as columns. Enqueued on the update queue, with waits for other ranks.
template <Scalar T>
MatrixView<runtime::WideOf<T>> reflect_slabs(mesh::Rank& rank, MatrixView<T> q);

/// Bytes of workspace on a rank.
std::int64_t reflections_bytes(std::int64_t ranks, std::int64_t columns, Dtype dtype);

}  // namespace shardsolve::dense::qr
