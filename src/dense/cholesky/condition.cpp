#include "dense/cholesky/condition.hpp"

#include "dense/cholesky/triangular_solve.hpp"
#include "dense/shared/one_norm_estimator.hpp"

#include <complex>

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

template double reciprocal_condition(mesh::Rank&, const FactorPart<float>&);
template double reciprocal_condition(mesh::Rank&, const FactorPart<double>&);
template double reciprocal_condition(mesh::Rank&, const FactorPart<std::complex<float>>&);
template double reciprocal_condition(mesh::Rank&, const FactorPart<std::complex<double>>&);

}  // namespace shardsolve::dense::cholesky
