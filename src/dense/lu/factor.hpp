/// Right-looking LU factorisation with partial pivoting on slabs.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/outcome.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::lu {

/// What a factorisation finds beside L and U; the same on every rank.
template <Scalar T>
struct Factored {
  /// ok; singular, then L and U are there all the same; or overflow, then nothing of use is.
  Outcome outcome;
  std::vector<std::int64_t> rows;  ///< the row of A that came to each place
  double largest = 0.0;            ///< max |u_ij|
  T sign{1};                       ///< det(A) = sign exp(log); 0 and -infinity if singular
  double log = 0.0;
};

/// Overwrites the rank's slab of A, columns of it, with those of L and U: P A Q^T = L U, where Q is
/// the elimination order of the layout and P are the swaps that bring the largest entry of a column
/// to its diagonal. Row i of a slab is then row i of L and U; columns stay where they are. LAPACK:
/// getrf.
template <Scalar T>
Factored<T> factor(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> slab);

}  // namespace shardsolve::dense::lu
