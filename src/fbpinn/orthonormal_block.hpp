/// One box's columns of the least-squares matrix, made orthonormal.
#pragma once

#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::fbpinn {

/// M P = Q R, cut after the columns that count: Q of `rank` orthonormal columns.
struct OrthonormalBlock {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t rank = 0;
  std::vector<double> adjoint;             ///< Q^T, rank x rows, column-major
  std::vector<double> r;                   ///< rank x rank, upper triangle, column-major
  std::vector<std::int32_t> kept_columns;  ///< of M, that of each column of R

  /// The weights z of M's columns with M z = Q y; 0 for those left out. columns numbers.
  void weights_of(const double* y, double* z) const;
  /// Of the arrays.
  std::int64_t bytes() const;
  /// Gives the arrays back: what is left are the three numbers.
  void forget();
};

/// `m` is overwritten. Columns whose part beside the others is at most `tolerance` times the
/// largest, or at most `least`, are left out. QR of M, then QR with column pivoting of R: nearly
/// all is matrix products, 4 rows columns^2 flops.
OrthonormalBlock orthonormalised(MatrixView<double> m, double tolerance, double least = 0.0);

}  // namespace shardsolve::fbpinn
