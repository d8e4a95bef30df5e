/// A tall matrix as Q R, on slabs of rows.
#pragma once

#include "mesh/rank.hpp"
#include "runtime/qr_kernels.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::qr {

using runtime::WideOf;

/// A D = Q R, where D scales the columns of A by powers of two.
template <Scalar T>
struct Factored {
  /// R, n x n, in double precision: on the first rank, zeros below its diagonal, which is real and
  /// not negative.
  MatrixView<WideOf<T>> r;
  std::vector<std::int64_t> exponents;  ///< of D
  int passes = 0;                       ///< over Q
  bool by_reflections = false;          ///< after the passes that did not end
};

/// `a`, of `rows` rows over all ranks and at least as many as columns: this rank's rows; `maxima`:
/// the largest modulus of each of its columns, over all ranks. Q comes into `q`, which may be `a`.
/// Q^H Q = I to rounding whatever A is. Throws Error(cancelled).
template <Scalar T>
Factored<T> factor(mesh::Rank& rank, std::int64_t rows, MatrixView<const T> a,
                   const std::vector<double>& maxima, MatrixView<T> q);

/// Bytes of workspace on a rank.
std::int64_t factor_bytes(std::int64_t ranks, std::int64_t columns, Dtype dtype);

}  // namespace shardsolve::dense::qr
