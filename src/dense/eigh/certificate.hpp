/// How good eigenpairs are, when they have overwritten the matrix.
#pragma once

#include "dense/shared/factor_part.hpp"
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
///
/// For A z = w B z it keeps V = B G, too, and finds W^H z - w V^H z and Z^H (B (Z G)) - G.
template <Scalar T>
class Certificate {
 public:
  static constexpr std::int64_t probes = 4;

  /// `slab`: this rank's columns of A, ||A||_1 being `norm`; `b`: what a factor keeps of B, null
  /// for I; stays with the caller. n^2 / ranks products a probe; waits.
  Certificate(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab, double norm,
              const FactorPart<T>* b);

  /// `z`: this rank's eigenvectors (vectors_on()), ready on the update queue; `values`: the
  /// eigenvalues of all. The outcome, the same on every rank, is ok and has residual, the largest
  /// ||A z - w z|| / ||A||, and orthogonality. With B the residual is the backward error of an
  /// eigenpair, ||A z - w B z|| / ((||A|| + |w| ||B||) ||z||). Waits. Source: D. J. Higham
  /// and N. J. Higham, Structured backward error and condition of generalized eigenvalue problems,
  /// 1998.
  Outcome check(MatrixView<const T> z, const std::vector<double>& values);

  /// Elements of workspace that a rank takes, without B or with it.
  static std::int64_t elements(const SlabLayout& layout, bool with_b);

 private:
  double residual(MatrixView<const T> z, const std::vector<double>& values);
  double orthogonality(MatrixView<const T> z);
  /// B x for as many columns as there are probes, on all ranks as x is.
  MatrixView<const T> multiply_by_b(MatrixView<const T> x);
  /// All rows on all ranks, of which each rank has made its own in `parts`.
  MatrixView<T> gather_rows(MatrixView<T> parts);
  /// This rank's rows among `parts`, which have those of each rank without gaps.
  MatrixView<T> part(MatrixView<T> parts, std::int64_t of) const;
  /// What all ranks have made on their update queues: piece r is rank r's.
  void gather(std::vector<comm::Bytes> pieces);

  mesh::Rank& rank_;
  const SlabLayout& layout_;
  std::int64_t first_;         // column of this rank
  std::vector<double> signs_;  // G
  MatrixView<const T> g_;      // n x probes
  double norm_;                // ||A||_1
  const FactorPart<T>* b_;
  std::int64_t rows_at_once_;  // see multiply_adjoint()
  MatrixView<T> w_;            // n x probes
  MatrixView<const T> bg_;     // likewise: V, or G without B
};

}  // namespace shardsolve::dense::eigh
