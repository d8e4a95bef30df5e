/// min ||b - A x|| with A = Q R on slabs of rows.
#pragma once

#include "dense/qr/first_rank.hpp"
#include "dense/qr/small_solver.hpp"
#include "dense/qr/solution.hpp"
#include "mesh/rank.hpp"
#include "runtime/qr_kernels.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::qr {

/// Some right-hand sides at a time, and the memory for them.
template <Scalar T>
class TallSolve {
 public:
  using Wide = runtime::WideOf<T>;

  /// `a`: this rank's rows of A, `q`: of Q. `first`: what the first rank solves with, null
  /// elsewhere. For up to `columns` right-hand sides,
  /// each refined up to so many times.
  TallSolve(mesh::Rank& rank, MatrixView<const T> a, MatrixView<const T> q,
            SmallSolver<Wide>* first, std::int64_t columns, int refinements);

  /// `b`: this rank's rows, the first ones of those of A; b is 0 in the others, which are no part
  /// of the residuals. `maxima`: the largest modulus of each column. Waits.
  Solved<T> run(MatrixView<const T> b, const std::vector<double>& maxima);

  /// Bytes of workspace.
  static std::int64_t bytes(std::int64_t ranks, std::int64_t rows, std::int64_t unknowns,
                            std::int64_t columns, Dtype dtype);

 private:
  using Values = std::vector<Wide>;
  class Search;

  bool agree(Search* search, std::int64_t columns);
  void residual(std::int64_t columns);

  mesh::Rank& rank_;
  const runtime::QrKernels<T>& kernels_;
  MatrixView<const T> a_;
  MatrixView<const T> q_;
  SmallSolver<Wide>* first_;
  int refinements_;
  Sums<Wide> sums_;
  MatrixView<T> x_;
  MatrixView<T> b_;
  MatrixView<T> r_;
  MatrixView<T> product_;
  MatrixView<double> sizes_;
  std::vector<std::int64_t> exponents_;  // of each column of x_ and r_, beside those of b_
};

}  // namespace shardsolve::dense::qr
