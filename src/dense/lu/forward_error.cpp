#include "dense/lu/forward_error.hpp"

#include "core/each_dtype.hpp"
#include "dense/lu/general_multiply.hpp"
#include "dense/shared/check_input.hpp"
#include "dense/shared/one_norm_estimator.hpp"
#include "dense/shared/right_hand_sides.hpp"
#include "dense/shared/shape_of.hpp"
#include "programs/gather.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <vector>

namespace shardsolve::dense::lu {
namespace {

using runtime::Op;

template <class T>
void put(mesh::Rank& rank, const std::vector<T>& from, MatrixView<T> to) {
  rank.update().copy(to.data(), from.data(), from.size() * sizeof(T));
  rank.update().synchronize();  // from here on `from` may go
}

}  // namespace

template <Scalar T>
double forward_error(mesh::Rank& rank, const FactorPart<T>& factor, TriangularSolve<T>& solve,
                     Op op, MatrixView<const T> x, double component_error) {
  using Limits = std::numeric_limits<RealOf<T>>;
  constexpr double infinite = std::numeric_limits<double>::infinity();
  const std::vector<double> maxima = column_maxima<T>(rank, x);
  double smallest = infinite;  // of the columns that are not 0
  for (const double one : maxima) {
    smallest = one > 0.0 ? std::min(smallest, one) : smallest;
  }
  if (smallest == infinite) {
    return 0.0;
  }
  const std::int64_t rows = factor.slab.columns();
  const MatrixView<T> z = rank.workspace<T>(rows, 1);
  const MatrixView<T> nothing = rank.workspace<T>(rows, 1);
  const MatrixView<T> product = rank.workspace<T>(rows, 1);
  const std::vector<double> shape = shape_of<T>(rank, x, maxima);
  std::vector<T> rounded(shape.size());
  std::transform(shape.begin(), shape.end(), rounded.begin(),
                 [](double one) { return T{static_cast<RealOf<T>>(one)}; });
  // y with random signs: |op(A)| |z| is |op(A)| y.
  const std::vector<double> signs = probe_signs(factor.layout.size());
  const auto first = static_cast<std::size_t>(factor.layout.segment(rank.index()).begin.value());
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    rounded[i] *= static_cast<RealOf<T>>(signs[first + i]);
  }
  put(rank, rounded, z);
  put(rank, std::vector<T>(static_cast<std::size_t>(rows), T{0}), nothing);
  GeneralMultiply<T> multiply(rank, factor.layout, factor.matrix, 1, Sums::exact);
  multiply.residual(op, z, nothing, product);
  const std::vector<double> sizes = rank.fetch(rank.update(), multiply.sizes().data(), rows);
  // Near the ends of the range neither w, which leaves out terms that are subnormal, nor what
  // follows says anything.
  constexpr double least = double{Limits::min()} / (double{Limits::epsilon()} * Limits::epsilon());
  const bool in_range = std::all_of(sizes.begin(), sizes.end(), [&](double size) {
    return size >= least && size * smallest >= least && size <= 1.0 / least;
  });
  if (programs::largest_of_all(rank, in_range ? 0.0 : 1.0) != 0.0) {
    return infinite;
  }
  // L U has to be A to some digits, as vectors like X see it and as columns of equal size do: only
  // then is its inverse one of A.
  const auto is_inverse = [&](const std::vector<T>& given, const std::vector<double>& units) {
    solve.run(op, product);  // of op(A) times what was given
    const std::vector<T> again = rank.fetch(rank.update(), product.data(), rows);
    double off = 0.0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      off = programs::largest(off, std::abs(std::complex<double>(again[i] - given[i])) * units[i]);
    }
    return programs::largest_of_all(rank, off) < 0.5;
  };
  if (!is_inverse(rounded, std::vector<double>(rounded.size(), 1.0))) {
    return infinite;
  }
  std::vector<T> others(rounded.size(), T{1});
  put(rank, others, z);
  multiply.residual(op == Op::none ? Op::conjugate_transpose : Op::none, z, nothing, product);
  const std::vector<double> columns = rank.fetch(rank.update(), multiply.sizes().data(), rows);
  for (std::size_t i = 0; i < others.size(); ++i) {
    others[i] = static_cast<RealOf<T>>(signs[first + i] / columns[i]);
  }
  put(rank, others, z);
  multiply.residual(op, z, nothing, product);
  if (!is_inverse(others, columns)) {
    return infinite;
  }
  const auto scale = [&](MatrixView<T> v) {
    std::vector<T> values = rank.fetch(rank.update(), v.data(), rows);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] *= static_cast<RealOf<T>>(sizes[i]);
    }
    put(rank, values, v);
  };
  const double norm = one_norm_by<T>(rank, factor.layout, [&](MatrixView<T> v, bool adjoint) {
    if (adjoint) {
      scale(v);
    }
    // The transpose has the moduli of the adjoint.
    solve.run((op == Op::none) == adjoint ? Op::none : Op::conjugate_transpose, v);
    if (!adjoint) {
      scale(v);
    }
  });
  const double error = 2.0 * std::max(component_error, unit_roundoff<T>) * norm;
  return std::isfinite(error) ? error : infinite;
}

#define SHARDSOLVE_INSTANTIATE(T)                                                       \
  template double forward_error(mesh::Rank&, const FactorPart<T>&, TriangularSolve<T>&, \
                                runtime::Op, MatrixView<const T>, double);
SHARDSOLVE_FOR_EACH_DTYPE(SHARDSOLVE_INSTANTIATE)
#undef SHARDSOLVE_INSTANTIATE

}  // namespace shardsolve::dense::lu
