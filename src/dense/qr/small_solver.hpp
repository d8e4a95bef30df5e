/// What the first rank solves with once a matrix is Q R: R itself, or its singular values.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/dtype.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::qr {

/// The least of the exponents of D, 0 if there is none.
std::int64_t common_exponent(const std::vector<std::int64_t>& exponents);

/// target = R D^-1 2^common_exponent() for R of A D = Q R: no column grows.
template <Scalar W>
void undo_scales(mesh::Rank& rank, MatrixView<const W> r,
                 const std::vector<std::int64_t>& exponents, MatrixView<W> target);

/// R of A D = Q R, where D scales by powers of two. `W` is double or std::complex<double>. Vectors
/// of the host hold n x k matrices, column by column. Used on the first rank alone; its calls wait.
template <Scalar W>
class SmallSolver {
 public:
  using Values = std::vector<W>;

  /// `r`: n x n, zeros below the diagonal; stays as it is. Solves for up to `columns` at a time.
  SmallSolver(mesh::Rank& rank, MatrixView<W> r, std::vector<std::int64_t> exponents,
              std::int64_t columns);

  std::int64_t size() const { return r_.rows(); }
  /// Of D.
  const std::vector<std::int64_t>& exponents() const { return exponents_; }
  /// ||R||, Frobenius: that of A D.
  double norm() const { return norm_; }
  /// 1 / (||R||_1 ||R^-1||_1), exact but for rounding; 0 where R is singular.
  double rcond() const { return rcond_; }

  /// Those of A, descending: afterwards they are there, or this returns false (not converged).
  /// Without vectors it takes half of the time or less, and all of them have to be kept.
  bool find_singular_values(bool with_vectors);
  /// Likewise those that others have found, of what undo_scales() makes. `uh`, `vh`: U^H and V^H,
  /// of use where not all are kept.
  void use_singular_values(std::vector<double> values, MatrixView<W> uh, MatrixView<W> vh);
  const std::vector<double>& singular_values() const { return singular_values_; }
  /// Times 2^common(), so that all are in range.
  const std::vector<double>& scaled_values() const { return scaled_values_; }
  /// From now on solves with the largest `count` singular values alone, which have been found, with
  /// vectors if these are not all.
  void keep(std::int64_t count) { kept_ = count; }
  bool is_truncated() const { return kept_ < size(); }
  std::int64_t common() const { return common_; }

  /// D^-1 x for the shortest x with R D^-1 x = c in the range that is kept.
  Values solve(const Values& c) const;
  /// z for the shortest z with (R D^-1)^H z = b in the range that is kept.
  Values solve_adjoint(Values b) const;
  /// ||P c|| of each column, P the projection on the range that is kept: of R, or of its adjoint.
  std::vector<double> kept_norms(const Values& c) const;
  std::vector<double> kept_norms_adjoint(const Values& b) const;
  /// With singular values, ||R D^-1 P b|| for P b as kept_norms_adjoint() has it, and the Frobenius
  /// norm of R D^-1; both times 2^common().
  std::vector<double> image_norms(const Values& b) const;
  double image_norm() const;

  /// Bytes of workspace on a rank, with singular values or without.
  static std::int64_t bytes(std::int64_t n, std::int64_t columns, bool singular_values);

 private:
  Values fetched(MatrixView<W> values) const;
  /// `c` in x_.
  MatrixView<W> uploaded(const Values& c) const;
  Values by_triangle(const Values& c, bool adjoint) const;
  Values by_singular_values(const Values& c, bool adjoint) const;
  /// Of each column of `c` the parts along those rows of `basis` that are kept, one after the
  /// other.
  Values along(MatrixView<const W> basis, const Values& c) const;
  /// ||P c|| of each column, or norms of other columns, as many as `c` has.
  std::vector<double> kept_norms(MatrixView<const W> basis, const Values& c) const;
  std::vector<double> norms(const Values& values, std::size_t columns) const;

  mesh::Rank& rank_;
  MatrixView<W> r_;
  MatrixView<W> x_;
  MatrixView<W> parts_;
  std::vector<std::int64_t> exponents_;
  double norm_ = 0.0;
  double rcond_ = 0.0;
  std::int64_t kept_;
  std::vector<double> singular_values_;
  std::vector<double> scaled_values_;  // those of A times 2^common_
  std::int64_t common_ = 0;
  MatrixView<W> uh_;  // A 2^common_ = Q U diag V^H
  MatrixView<W> vh_;
};

}  // namespace shardsolve::dense::qr
