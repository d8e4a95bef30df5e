/// Singular values and vectors of a matrix that is cut by rows, by a bidiagonal form that all ranks
/// make.
#pragma once

#include "mesh/rank.hpp"
#include "runtime/bidiagonal_kernels.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace shardsolve::dense::svd {

/// A = Q B P^H = U diag(s) V^H, in double precision: T is float or complex<float> for input alone.
/// A has at least as many rows as columns. Rows and columns are eliminated in turn, one of each
/// rank, so that all ranks have work to the end and no row moves.
template <Scalar T>
class BidiagonalForm {
 public:
  using Wide = runtime::WideOf<T>;

  /// `rows`: of A; `columns`: of what has as many rows as A columns.
  BidiagonalForm(mesh::Rank& rank, const SlabLayout& rows, const SlabLayout& columns,
                 bool with_vectors);

  /// B, of this rank's rows of A; they may go afterwards. Throws Error(cancelled).
  void reduce(MatrixView<const T> a);
  /// The singular values, descending, on all ranks: LAPACK's of B, on the first rank. Empty if they
  /// did not converge.
  std::optional<std::vector<double>> find();
  /// After find(), with vectors: this rank's rows of U and of V.
  MatrixView<Wide> u();
  MatrixView<Wide> v();

  /// Bytes of workspace.
  static std::int64_t bytes(const SlabLayout& rows, const SlabLayout& columns, bool with_vectors);

 private:
  using Kernels = runtime::BidiagonalKernels<Wide>;
  using Panel = runtime::BidiagonalPanel<Wide>;

  /// Of one side: this rank's rows of all.
  struct Reflectors {
    const SlabLayout& layout;
    MatrixView<const Wide> v;
    const Wide* tau;
  };

  std::int64_t size() const { return columns_.size(); }
  void reduce_panel(Panel panel, std::int64_t width);
  /// Of B's vectors, which the first rank has, the rows of each rank to that one: returned.
  MatrixView<double> deal_rows(MatrixView<const double> of_form, bool transposed,
                               const SlabLayout& layout);
  /// This rank's rows of the product of the reflectors with them.
  MatrixView<Wide> vectors(MatrixView<const double> of_form, bool transposed,
                           const Reflectors& reflectors);
  /// What all ranks write a column of to, `numbers` each.
  MatrixView<Wide> shares(std::int64_t numbers) const;
  void exchange(MatrixView<Wide> shares);

  mesh::Rank& rank_;
  SlabLayout rows_;     // in turn, one row of each rank
  SlabLayout columns_;  // likewise
  const Kernels& kernels_;
  const std::int64_t* own_columns_ = nullptr;  // their places in the order of elimination
  MatrixView<Wide> a_;
  MatrixView<Wide> right_;
  MatrixView<Wide> x_;
  MatrixView<Wide> y_;
  MatrixView<Wide> u_;
  MatrixView<double> diagonals_;  // of B, two columns
  MatrixView<Wide> tau_;          // of the reflectors on the left and on the right
  MatrixView<Wide> shares_;
  // B's vectors, on the first rank
  MatrixView<double> left_of_form_;
  MatrixView<double> right_of_form_;  // transposed
};

}  // namespace shardsolve::dense::svd
