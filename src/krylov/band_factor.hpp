/// A block as band factors in the memory of the host: Cholesky if it is Hermitian and positive
/// definite, else LU with partial pivoting. Products and differences are rounded one by one, in an
/// order that depends on the block alone.
#pragma once

#include "krylov/block_tables.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/index.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/sparse.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::krylov {

/// G. H. Golub and C. F. Van Loan, Matrix Computations (2013), sections 4.3 and 4.3.5. About
/// n l (l + u) multiplications for bandwidths l and u. A singular block has infinities or NaN in
/// its solutions.
template <Scalar T>
class BandFactor {
 public:
  /// `block`: square; zeros outside of its band are found.
  explicit BandFactor(MatrixView<const T> block);
  /// The block of a square matrix, in order, with these rows and columns: the bits of the same
  /// block as a dense one, without one.
  BandFactor(const CsrMatrix<T>& a, GlobalRange rows);

  std::int64_t size() const { return n_; }
  bool is_cholesky() const { return is_cholesky_; }
  /// Adds the block, n (2 l + u) numbers: 2 n (2 l + u) flops a solve.
  void add_to(BlockTables<T>& tables) const;

 private:
  T& at(std::int64_t i, std::int64_t j) {
    return band_[static_cast<std::size_t>(j * height_ + i - j + upper_)];
  }
  const T& at(std::int64_t i, std::int64_t j) const {
    return band_[static_cast<std::size_t>(j * height_ + i - j + upper_)];
  }
  template <class Block>
  void factor(const Block& block);
  template <class Block>
  void load(const Block& block);
  bool factor_cholesky();
  void factor_lu();

  std::int64_t n_ = 0;
  std::int64_t lower_ = 0;  // bandwidths of the factors
  std::int64_t upper_ = 0;
  std::int64_t height_ = 0;  // of a column in memory
  bool is_cholesky_ = false;
  std::vector<T> band_;
  std::vector<std::int64_t> pivots_;
};

}  // namespace shardsolve::krylov
