#include "dense/cholesky/condition.hpp"

#include "core/each_dtype.hpp"
#include "dense/cholesky/triangular_solve.hpp"
#include "dense/shared/hermitian_multiply.hpp"
#include "dense/shared/one_norm_estimator.hpp"

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardsolve::dense::cholesky {

template <Scalar T>
double reciprocal_condition(mesh::Rank& rank, const FactorPart<T>& factor) {
  if (factor.layout.size() == 0) {
    return 1.0;
  }
  TriangularSolve<T> triangular_solve(rank, factor.layout, factor.slab, 1);
  // A^-1 is its own conjugate transpose.
  return reciprocal_condition_by<T>(rank, factor.layout, factor.norm,
                                    [&](MatrixView<T> x, bool) { triangular_solve.run(x); });
}

template <Scalar T>
double scaled_reciprocal_condition(mesh::Rank& rank, const FactorPart<T>& factor) {
  if (factor.layout.size() == 0) {
    return 1.0;
  }
  const std::int64_t rows = factor.slab.columns();
  std::vector<RealOf<T>> d;
  for (std::int64_t i = 0; i < rows; ++i) {
    d.push_back(std::sqrt(factor.diagonal[i]));
  }
  const auto scale = [&](MatrixView<T> v, bool divides) {
    std::vector<T> values = rank.fetch(rank.update(), static_cast<const T*>(v.data()), rows);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = divides ? values[i] / d[i] : values[i] * d[i];
    }
    rank.update().copy(v.data(), values.data(), values.size() * sizeof(T));
    rank.update().synchronize();  // from here on `values` may go
  };
  HermitianMultiply<T> multiply(rank, factor.layout, factor.slab, factor.diagonal, 1);
  const MatrixView<T> product = rank.workspace<T>(rows, 1);
  const double norm = one_norm_by<T>(rank, factor.layout, [&](MatrixView<T> v, bool) {
    scale(v, true);
    multiply.run(v, product);
    rank.kernels<T>().copy(rank.update(), product, v);
    scale(v, true);
  });
  TriangularSolve<T> solve(rank, factor.layout, factor.slab, 1);
  const double norm_of_inverse = one_norm_by<T>(rank, factor.layout, [&](MatrixView<T> v, bool) {
    scale(v, false);
    solve.run(v);
    scale(v, false);
  });
  const double condition = norm * norm_of_inverse;
  return std::isfinite(condition) ? 1.0 / condition : 0.0;
}

#define SHARDSOLVE_INSTANTIATE(T)                                          \
  template double reciprocal_condition(mesh::Rank&, const FactorPart<T>&); \
  template double scaled_reciprocal_condition(mesh::Rank&, const FactorPart<T>&);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::cholesky
