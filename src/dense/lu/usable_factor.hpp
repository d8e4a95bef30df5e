/// What calls with an LU factor ask of it, and what a rank has of it.
#pragma once

#include "dense/lu/factor_part.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/lu.hpp>

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

namespace shardsolve::dense::lu {

/// Whether the matrix and its factor share memory: the slabs of ranks elsewhere are null in both.
template <Scalar T>
bool overwrites(const ShardedMatrix<T>& matrix, const ShardedMatrix<T>& slabs) {
  for (std::int64_t rank = 0; rank < matrix.layout().ranks(); ++rank) {
    const MatrixView<T> a = matrix.slab(rank);
    if (!a.empty() && a.data() == slabs.slab(rank).data()) {
      return true;
    }
  }
  return false;
}

template <Scalar T>
void require_factor(const LuFactor<T>& factor) {
  if (factor.outcome.ok() && factor.rows && factor.rows->empty() && factor.layout().size() > 0) {
    throw Error(ErrorKind::invalid_argument,
                "the factor was consumed by lu_inverse: factor the matrix again");
  }
  if (!factor.rows || std::ssize(*factor.rows) != factor.layout().size()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("there is no factor to work with: {}", factor.outcome.message()));
  }
}

template <Scalar T>
void require_usable(const LuFactor<T>& factor) {
  if (!factor.outcome.ok()) {
    throw Error(ErrorKind::invalid_argument,
                fmt::format("there is no factor to work with: {}", factor.outcome.message()));
  }
  require_factor(factor);
  if (overwrites(factor.matrix, factor.slabs) && !factor.sketch) {
    throw Error(ErrorKind::invalid_argument,
                "the factor has overwritten its matrix and has no sketch of it, without which no "
                "answer can be certified: keep what lu_factor returns as it is");
  }
}

template <Scalar T>
FactorPart<T> part_of(const LuFactor<T>& factor, const mesh::Rank& rank) {
  return {factor.layout(),
          factor.slabs.slab(rank.index()),
          factor.matrix.slab(rank.index()),
          *factor.rows,
          factor.one_norm,
          factor.inf_norm,
          factor.outcome.growth.value_or(1.0),
          factor.sketch ? factor.sketch->sums.block(rank.index()) : MatrixView<T>(),
          factor.sketch ? factor.sketch->frobenius_norm : Scaled{}};
}

/// Whether A is still there.
template <Scalar T>
bool keeps_matrix(const LuFactor<T>& factor) {
  return !factor.sketch && !overwrites(factor.matrix, factor.slabs);
}

}  // namespace shardsolve::dense::lu
