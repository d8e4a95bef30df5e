/// How good eigenpairs are, when they have overwritten the matrix.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::eigh {

/// For G of a few columns of random signs it keeps W = A G. Then
///
///   W^H z - w G^H z = G^H (A z - w z)      and      Z^H (Z G) - G = (Z^H Z - I) G
///
/// and the mean square of numbers of a row of these estimates the square of the 2-norm of
/// A z - w z, and of the row of Z^H Z - I.
template <Scalar T>
class Certificate {
 public:
  static constexpr std::int64_t probes = 4;

  /// `slab`: this rank's columns of A. n^2 / ranks products a probe; waits.
  Certificate(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab);

  /// `z`: this rank's eigenvectors (vectors_on()), ready on the update queue; `values`: the
  /// eigenvalues of all; `norm`: of A. The outcome, the same on every rank, is ok and has residual
  /// and orthogonality. Waits.
  Outcome check(MatrixView<const T> z, const std::vector<RealOf<T>>& values, double norm);

  /// Elements of workspace that a rank takes.
  static std::int64_t elements(const SlabLayout& layout);

 private:
  double residual(MatrixView<const T> z, const std::vector<RealOf<T>>& values);
  double orthogonality(MatrixView<const T> z);
  /// Numbers that all ranks have made on their update queues: piece r of each is rank r's.
  void gather(MatrixView<T> pieces, const std::vector<std::int64_t>& begins);

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  std::int64_t first_;         // column of this rank
  std::vector<double> signs_;  // G
  MatrixView<const T> g_;      // n x probes
  MatrixView<T> w_;            // n x probes
};

}  // namespace shardsolve::dense::eigh
