/// The columns of unknown coefficients beside those of the boxes.
#pragma once

#include "fbpinn/orthonormal_block.hpp"
#include "sparse/workers.hpp"

#include <shardsolve/matrix_view.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace shardsolve::fbpinn {

/// Dense columns C = Q Y + P beside the boxes' matrix Q, with Q^T P = 0 and P = Q_c R of
/// orthonormal columns Q_c: what a border of the Gram matrix is after its block of Q is eliminated.
/// R^T R is the Schur complement, but not computed as a difference, which would lose half of the
/// digits.
class Border {
 public:
  /// Q y.
  using Multiply = std::function<std::vector<double>(const std::vector<double>& y)>;
  /// Of each r the y that makes ||Q y - r|| least, by one solve with the factor.
  using Project =
      std::function<std::vector<std::vector<double>>(const std::vector<std::vector<double>>& r)>;

  Border() = default;
  /// Two solves for each column of `columns`. Columns whose part beside Q and the others is at most
  /// `tolerance` of them are left out.
  Border(MatrixView<const double> columns, const Multiply& multiply, const Project& project,
         double tolerance, const sparse::Workers& workers);

  std::int64_t rank() const { return block_.rank; }
  /// Standard deviations of the weights of C, if what is left of the residual is noise, with
  /// `freedom` rows more than columns: of noise that is alike in all rows, or as large as what is
  /// left in each (White, Econometrica 48, 1980), whichever says more. Infinite for columns left
  /// out, and for those that columns left out are combinations of, as both can change together.
  std::vector<double> deviations(std::span<const double> residual, std::int64_t freedom) const;
  /// Q_c^T r, and r -= Q_c z. The same bits in every process.
  std::vector<double> multiply_adjoint(std::span<const double> r) const;
  void subtract(std::span<const double> z, std::vector<double>& r) const;
  /// The weights of C for those of Q_c: 0 for columns left out. y becomes those of Q that belong to
  /// them.
  std::vector<double> weights_of(std::span<const double> z, std::vector<double>& y) const;

 private:
  void find_those_alone(const std::vector<std::vector<double>>& left);

  OrthonormalBlock block_;                 // of the columns of P over their scales
  std::vector<double> scales_;             // the norms of the columns of C
  std::vector<std::vector<double>> in_q_;  // Y
  std::vector<char> is_alone_;             // of the columns: kept, and no part of one left out
};

}  // namespace shardsolve::fbpinn
