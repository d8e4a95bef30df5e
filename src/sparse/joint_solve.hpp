/// Solves with a front that all ranks have factored together.
#pragma once

#include "comm/communicator.hpp"
#include "dense/cholesky/triangular_solve.hpp"
#include "mesh/rank.hpp"
#include "sparse/joint_front.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::sparse {

/// For up to so many right-hand sides, again and again. Vectors are the front's columns on the
/// host, the same on all ranks before and after. Takes memory of the rank's call.
template <Scalar T>
class JointSolve {
 public:
  /// `slab`: L's columns that the rank has. The front must outlive it.
  JointSolve(mesh::Rank& rank, const JointFront& front, MatrixView<const T> slab,
             std::int64_t columns);

  /// x1 := L11^-1 x1, which the ranks keep, and x2 -= L21 x1.
  void forward(MatrixView<T> x);
  /// x1 := L11^-H (what forward() has kept - L21^H x2).
  void back(MatrixView<T> x);

 private:
  MatrixView<T> own_rows(std::int64_t rank, std::int64_t columns) const;

  mesh::Rank& rank_;
  const JointFront& front_;
  std::vector<std::int64_t> packed_;  ///< rows of the outer columns
  dense::cholesky::PartialSolve<T> solve_;
  MatrixView<T> rows_;   ///< of all ranks, one behind the other
  MatrixView<T> parts_;  ///< of all ranks, of L21 x1
  MatrixView<T> outer_;
  T* on_host_;
};

}  // namespace shardsolve::sparse
