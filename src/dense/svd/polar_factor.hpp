/// The unitary polar factor of a tall matrix, by products and Cholesky factors.
#pragma once

#include "dense/svd/weights.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/outcome.hpp>
#include <shardsolve/slab_layout.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shardsolve::dense::svd {

/// How an m x n matrix X, m >= n, lies on the ranks, and what is made of it.
struct Shape {
  SlabLayout rows;     ///< of X, m; X^H lies by columns, n x rows.width(rank)
  SlabLayout columns;  ///< n, of n x n matrices and their Cholesky factors

  /// Numbers in a message of a product where the columns of X^H travel, or of two such matrices.
  std::int64_t of_relay() const {
    return 2 * columns.size() * std::max(rows.tile(), columns.tile());
  }
};

/// The iteration for an X of norm at most 1 with singular values of at least `least`: smaller ones
/// may stay behind.
template <Scalar T>
Weights weights_at(double least);
/// Whether `count` singular values of at least `least` are so near to 1 that polishing makes what
/// is left rounding; count 0: whether they are 1 to rounding, as completing needs them.
template <Scalar T>
bool is_at_end(double least, std::int64_t count);
/// Iterations that are left.
template <Scalar T>
std::int64_t iterations_from(double least, std::int64_t count);
/// For any X: far below rounding, also relative to a Frobenius norm. What stays behind is
/// completed.
template <Scalar T>
double least_of_any();
/// For an X that was completed. If a random matrix happens to be worse, it is completed once more.
inline constexpr double least_when_completed = 1e-6;

/// A number from -1 to 1 for each row and column of a matrix of so many rows, at random but the
/// same on every mesh.
double random_at(std::int64_t row, std::int64_t column, std::int64_t rows);
/// So many columns of such numbers show iterate() the smallest singular value.
inline constexpr std::int64_t look_vectors = 4;

/// One iteration: X = X (a + b X^H X) (I + c X^H X)^-1, `x` this rank's columns of X^H. The status
/// is ok or not_converged. `least`, if it is not null and c is not mild: receives half of the
/// smallest singular value that X has had, as random vectors see it; 0 if it is too small for them,
/// or far smaller than all others. The same on all ranks.
template <Scalar T>
Outcome iterate(mesh::Rank& rank, const Shape& shape, const Weights& weights, MatrixView<T> x,
                double* least = nullptr);

/// What is left of X^H X - I after the iterations, in the Frobenius norm; the same on all ranks. If
/// that is small, one Newton-Schulz step X = X (3 I - X^H X) / 2 makes it rounding alone. If not,
/// and `completes`, A has singular values that are 0 to rounding, and X is to be iterated once
/// more: to columns that are missing it then has random ones added, perpendicular to those that are
/// there, and is scaled by 1/2.
template <Scalar T>
double polish_or_complete(mesh::Rank& rank, const Shape& shape, bool completes, MatrixView<T> x);
/// Whether that left a polished X.
template <Scalar T>
bool is_polished(double deviation);

/// H = (X^H A + A^H X) / 2, this rank's columns; `a` its columns of A^H.
template <Scalar T>
void hermitian_factor(mesh::Rank& rank, const Shape& shape, MatrixView<const T> x,
                      MatrixView<const T> a, MatrixView<T> h);

/// Bytes of workspace of the one that takes most.
std::int64_t polar_bytes(const Shape& shape, Dtype dtype);

}  // namespace shardsolve::dense::svd
