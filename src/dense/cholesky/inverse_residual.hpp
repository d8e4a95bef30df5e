/// The certificate of an inverse that has overwritten A.
#pragma once

#include "dense/cholesky/certified_solve.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/outcome.hpp>

#include <vector>

namespace shardsolve::dense::cholesky {

/// Keeps w = A v for v of random signs before the factor is consumed, and compares X w with v
/// after. One object for all ranks; each touches its own rows.
template <Scalar T>
class InverseResidual {
 public:
  explicit InverseResidual(std::int64_t n) : product_(static_cast<std::size_t>(n)) {}

  /// w = A v, from what the factor kept of A.
  void before(mesh::Rank& rank, const FactorPart<T>& factor);

  /// `inverse.slab` now holds X; the rest is still A's. The outcome: ok with backward_error
  /// ||v - X w|| / (||A|| ||X||) in the infinity norm and rcond = 1 / (||A||_1 ||X||_1), or
  /// overflow. The same on every rank.
  Outcome after(mesh::Rank& rank, const FactorPart<T>& inverse);

 private:
  std::vector<T> product_;  // w / scale
};

}  // namespace shardsolve::dense::cholesky
