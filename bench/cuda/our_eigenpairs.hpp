/// Eigenpairs as the benchmark asks us for them.
#pragma once

#include "bench/cuda/jobs.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/eigh.hpp>
#include <shardsolve/matrix_view.hpp>

#include <algorithm>
#include <cstdint>

namespace shardsolve::bench {

inline EighRequest request_of(const Wanted& wanted) {
  return {.vectors = wanted.vectors, .indices = EighRequest::Indices{0, wanted.count}};
}

/// Of a slab that begins with column `first` of Z, the columns that hold the first `count` of Z.
template <Scalar T>
MatrixView<const T> first_columns(MatrixView<T> slab, std::int64_t first, std::int64_t count) {
  return slab.columns_from(0, std::clamp<std::int64_t>(count - first, 0, slab.columns()));
}

}  // namespace shardsolve::bench
