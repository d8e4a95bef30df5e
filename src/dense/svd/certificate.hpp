/// How far A = U S V^H or A = U H, and how far from orthonormal columns are, as a few random
/// vectors see it.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::svd {

/// Products with vectors G of random signs. Matrices lie by rows; all results are the same on all
/// ranks.
template <Scalar T>
class Certificate {
 public:
  explicit Certificate(mesh::Rank& rank) : rank_(rank) {}

  /// ||A - U S V^H||, Frobenius; `a` and `u` have one layout, `v` and its rows `own` another.
  double residual(MatrixView<const T> a, MatrixView<const T> u, const std::vector<RealOf<T>>& s,
                  MatrixView<const T> v, GlobalRange own);
  /// ||A - U H||, with these columns `own` of H.
  double residual(MatrixView<const T> a, MatrixView<const T> u, MatrixView<const T> h,
                  GlobalRange own);
  /// The largest 2-norm of a row of Q^H Q - I.
  double orthogonality(MatrixView<const T> q);

  /// Bytes of workspace for these rows of A.
  static std::int64_t bytes(std::int64_t ranks, std::int64_t rows, std::int64_t columns);

 private:
  /// The rows `rows` of G, of `of` in all.
  MatrixView<T> signs(std::int64_t of, GlobalRange rows);
  /// Sums over the ranks, in their order.
  template <class V>
  std::vector<V> sum(const std::vector<V>& mine);
  double norm_of_rest(MatrixView<const T> a, MatrixView<const T> u, const std::vector<T>& image);

  mesh::Rank& rank_;
};

}  // namespace shardsolve::dense::svd
