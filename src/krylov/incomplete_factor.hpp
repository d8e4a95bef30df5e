/// A block of a sparse matrix as incomplete factors without fill-in: they have entries where the
/// block has. Y. Saad, Iterative Methods for Sparse Linear Systems (2003), sections 10.3 and 11.2.
/// Rounded one by one, in an order that depends on the block alone.
#pragma once

#include "krylov/block_tables.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/index.hpp>
#include <shardsolve/sparse.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::krylov {

/// L U of a block, L with ones on its diagonal: ILU(0). A pivot that is 0 leaves infinities or NaN
/// in the solutions.
template <Scalar T>
class IncompleteLu {
 public:
  /// The block of `a`, in order, with these rows and columns. All of its diagonal is in the
  /// pattern.
  IncompleteLu(const CsrMatrix<T>& a, GlobalRange rows);

  /// Adds the block: 2 flops an entry and solve.
  void add_to(BlockTables<T>& tables) const;

 private:
  std::vector<std::int64_t> row_pointers_;
  std::vector<std::int64_t> columns_;   // of the block
  std::vector<std::int64_t> diagonal_;  // number of the entry
  std::vector<T> values_;
};

/// L D L^H of a Hermitian block with D > 0, from its lower triangle: IC(0). If a pivot is not above
/// rounding, all begins anew with A + shift diag(A), the shift 1e-3 and then twice as large each
/// time; T. A. Manteuffel, Math. Comp. 34 (1980) 473.
template <Scalar T>
class IncompleteCholesky {
 public:
  /// Likewise; the diagonal is positive.
  IncompleteCholesky(const CsrMatrix<T>& a, GlobalRange rows);

  double shift() const { return shift_; }
  void add_to(BlockTables<T>& tables) const;

 private:
  bool factor(const std::vector<T>& given);

  double shift_ = 0.0;
  std::vector<std::int64_t> row_pointers_;  // of what is below the diagonal
  std::vector<std::int64_t> columns_;
  std::vector<T> values_;
  std::vector<RealOf<T>> given_diagonal_;
  std::vector<RealOf<T>> diagonal_;
};

}  // namespace shardsolve::krylov
