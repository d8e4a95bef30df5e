#include "dense/cholesky/condition.hpp"

#include "core/each_dtype.hpp"
#include "dense/shared/one_norm_estimator.hpp"
#include "dense/shared/right_hand_sides.hpp"
#include "dense/shared/shape_of.hpp"
#include "programs/gather.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace shardsolve::dense::cholesky {

template <Scalar T>
double reciprocal_condition(mesh::Rank& rank, const FactorPart<T>& factor,
                            TriangularSolve<T>& solve) {
  if (factor.layout.size() == 0) {
    return 1.0;
  }
  // A^-1 is its own conjugate transpose.
  return reciprocal_condition_by<T>(rank, factor.layout, factor.norm,
                                    [&](MatrixView<T> x, bool) { solve.run(x); });
}

template <Scalar T>
double forward_error(mesh::Rank& rank, const FactorPart<T>& factor, TriangularSolve<T>& solve,
                     MatrixView<const T> x, double backward_error) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const std::vector<double> shape = shape_of<T>(rank, x, column_maxima<T>(rank, x));
  const auto rows = static_cast<std::int64_t>(shape.size());
  std::vector<double> d;
  double sum = 0.0;  // d^T y
  for (std::size_t i = 0; i < shape.size(); ++i) {
    d.push_back(std::sqrt(double{factor.diagonal[i]}));
    sum += d[i] * shape[i];
  }
  sum = programs::sum_of_all(rank, sum);
  const auto scale = [&](MatrixView<T> v, const auto& factor_of) {
    std::vector<T> values = rank.fetch(rank.update(), static_cast<const T*>(v.data()), rows);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] *= static_cast<RealOf<T>>(factor_of(i));
    }
    rank.update().copy(v.data(), values.data(), values.size() * sizeof(T));
    rank.update().synchronize();  // from here on `values` may go
  };
  const auto by_d = [&](std::size_t i) { return d[i]; };
  const auto to_x = [&](std::size_t i) { return sum / d[i]; };
  // || S D A^-1 D || in the infinity norm, S = diag(d^T y / d), is || D A^-1 D S || in the 1-norm;
  // all but S is about 1 where units alone differ.
  const double norm = one_norm_by<T>(rank, factor.layout, [&](MatrixView<T> v, bool adjoint) {
    if (!adjoint) {
      scale(v, to_x);
    }
    scale(v, by_d);
    solve.run(v);
    scale(v, by_d);
    if (adjoint) {
      scale(v, to_x);
    }
  });
  const double error = 2.0 * std::max(backward_error, unit_roundoff<T>) * norm;
  return std::isfinite(error) ? error : infinite;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                               \
  template double reciprocal_condition(mesh::Rank&, const FactorPart<T>&, TriangularSolve<T>&); \
  template double forward_error(mesh::Rank&, const FactorPart<T>&, TriangularSolve<T>&,         \
                                MatrixView<const T>, double);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::cholesky
