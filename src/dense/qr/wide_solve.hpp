/// The shortest x with A x = b, where A has fewer rows than columns and A^H = Q R on slabs of rows.
#pragma once

#include "dense/qr/small_solver.hpp"
#include "dense/qr/solution.hpp"
#include "mesh/rank.hpp"
#include "runtime/qr_kernels.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::qr {

/// This rank's rows of A^H, of which it gives the layout; `a`: its rows of A, of which `layout` is.
/// In memory of its own, `below` rows of zeros below. Each number crosses the ranks once.
template <Scalar T>
MatrixView<T> adjoint_rows(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> a,
                           const SlabLayout& of_adjoint, std::int64_t below);

/// Some right-hand sides at a time, and the memory for them.
template <Scalar T>
class WideSolve {
 public:
  using Wide = runtime::WideOf<T>;

  /// `layout`, `of_adjoint`: of the rows of A and of A^H. `adjoint`: this rank's rows of A^H, more
  /// of them than the layout says where it is damped by `damping`; `q`: of Q. `first`: what the
  /// first rank solves with, null elsewhere. For up to `columns` right-hand sides,
  /// each refined up to so many times.
  WideSolve(mesh::Rank& rank, const SlabLayout& layout, const SlabLayout& of_adjoint,
            MatrixView<const T> adjoint, MatrixView<const T> q, double damping,
            SmallSolver<Wide>* first, std::int64_t columns, int refinements);

  /// `b`: this rank's rows. `maxima`: the largest modulus of each column. Waits.
  Solved<T> run(MatrixView<const T> b, const std::vector<double>& maxima);

  static std::int64_t bytes(const SlabLayout& layout, const SlabLayout& of_adjoint,
                            std::int64_t columns, Dtype dtype);

 private:
  using Values = std::vector<Wide>;
  class Search;

  std::vector<T> collected(MatrixView<const T> b);
  void step(Search* search, std::int64_t columns, bool is_first);
  std::vector<T> shares_of(std::int64_t columns);
  std::vector<T> rows_below(std::int64_t columns);
  std::vector<T> x_of_all(std::int64_t columns);

  mesh::Rank& rank_;
  const runtime::QrKernels<T>& kernels_;
  const SlabLayout& layout_;
  const SlabLayout& of_adjoint_;
  MatrixView<const T> adjoint_;
  MatrixView<const T> q_;
  double damping_;
  SmallSolver<Wide>* first_;
  int refinements_;
  MatrixView<T> z_;      // what Q is multiplied with
  MatrixView<T> tried_;  // this rank's rows of x, scaled
  MatrixView<T> best_;   // the best so far, as the caller gets it
  MatrixView<T> given_;  // the one that is tried, likewise
  MatrixView<T> share_;  // this rank's share of A x, twofold
  MatrixView<double> sizes_;
  MatrixView<T> table_;                  // the shares of all ranks; rows of B; rows of X
  std::vector<std::int64_t> exponents_;  // of tried_ beside given_, of each column
};

}  // namespace shardsolve::dense::qr
