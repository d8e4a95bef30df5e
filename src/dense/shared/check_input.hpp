/// The one look at A before anything is written.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/scaled.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

namespace shardsolve::dense {

/// What is known about A afterwards; the same on every rank.
struct InputCheck {
  Outcome outcome;  ///< ok, nonfinite_input or not_hermitian
  Scaled norm;      ///< ||A||_1
};

/// One pass over the rank's slab. Refuses NaN and Inf.
template <Scalar T>
InputCheck check_finite(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab);

/// Likewise one pass, which also refuses a matrix for which
/// |((A - A^H) v)_i| > 32 sqrt(n) u (|A| 1)_i for some row i: a Gram matrix that was rounded
/// differently in its two triangles passes. v is fixed and random, its entries of different sizes
/// from 1 to 2: with signs alone what has equal entries in each row, a stencil, would cancel.
template <Scalar T>
InputCheck check_hermitian(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab);

/// The vector v of check_hermitian(), n numbers: 1 to 2 with a sign, of so few digits that products
/// with float32 are exact.
void write_probe_weights(double* weights, std::int64_t n);

/// How much (A - A^H) v may have in a row, in units of what |A| 1 has there.
template <Scalar T>
double asymmetry_limit(std::int64_t n) {
  return 32.0 * std::sqrt(static_cast<double>(n)) * unit_roundoff<T>;
}

/// +1 or -1 for each of n rows, at random but the same everywhere.
std::vector<double> probe_signs(std::int64_t n);

/// Likewise for some vectors, a power of two of them, one behind the other. Products with them
/// estimate norms: those of no more rows than vectors exactly, as rows of signs are orthogonal then.
std::vector<double> probe_signs(std::int64_t n, std::int64_t vectors);

}  // namespace shardsolve::dense
