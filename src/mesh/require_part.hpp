/// What a rank program needs of the caller's memory.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/sharded.hpp>

#include <fmt/format.h>

#include <cstdint>

namespace shardsolve::mesh {

/// Throws Error(invalid_argument) unless this rank's part of `what` is in this process.
template <Scalar T>
void require_part(const Rank& rank, MatrixView<const T> part, std::int64_t rows,
                  std::int64_t columns, const char* what) {
  if (part.rows() != rows || part.columns() != columns) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("{} has no memory for rank {} in the process of that rank: each "
                            "process gives the part of its own rank",
                            what, rank.index()));
  }
}
template <Scalar T>
void require_part(const Rank& rank, const ShardedMatrix<T>& a, const char* what) {
  require_part<T>(rank, a.slab(rank.index()), a.layout().size(), a.layout().width(rank.index()),
                  what);
}
template <Scalar T>
void require_part(const Rank& rank, const RightHandSides<T>& b, const char* what) {
  require_part<T>(rank, b.block(rank.index()), b.layout().width(rank.index()), b.columns(), what);
}

}  // namespace shardsolve::mesh
