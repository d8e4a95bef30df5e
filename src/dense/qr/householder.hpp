/// A matrix that is not much taller than wide as Q R, by reflections of whole columns.
#pragma once

#include "dense/qr/dealt_columns.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/dtype.hpp>
#include <shardsolve/matrix_view.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::qr {

/// A D = Q R, where D scales the columns of A by powers of two. No rank has more of A, Q or R than
/// its columns.
template <Scalar T>
class Householder {
 public:
  /// `rows`: how A is cut by rows, of which it has at least as many as columns.
  Householder(mesh::Rank& rank, const SlabLayout& rows, std::int64_t columns);

  /// `a`: this rank's rows of A; `exponents`: of D. R's diagonal is real and not negative. Waits.
  /// Throws Error(cancelled).
  void factor(MatrixView<const T> a, const std::vector<std::int64_t>& exponents);

  /// ||A D||, Frobenius; the same on all ranks.
  double norm() const { return norm_; }
  /// This rank's part of R g, which is the sum of all; n rows. Enqueued on the update queue.
  void multiply_r(MatrixView<const T> g, MatrixView<T> part);
  /// Whether all of R D^-1, R of A itself, fits the dtype; the same on all ranks. Of the columns
  /// that r_to_rows() or r_to_host() has made. Waits.
  bool r_is_finite();
  /// [R D^-1; 0], n columns, to the ranks that have the rows of A. Waits.
  void r_to_rows(MatrixView<T> rows);
  /// R D^-1 to the host of every process; empty for ranks that do not lead theirs. Waits.
  std::vector<T> r_to_host();

  /// Q takes the place of what makes it: the last call but for norm(). `rows` receives this rank's
  /// rows. Waits. Throws Error(cancelled).
  void make_q(MatrixView<T> rows);

  /// Bytes of workspace.
  static std::int64_t bytes(const SlabLayout& rows, std::int64_t columns);

 private:
  class Reduction;
  class Formation;

  Step end() const { return Step(columns_.steps()); }
  Step next_own(Step step) const { return columns_.next_owned(rank_.index(), step); }
  std::int64_t width(Step step) const { return columns_.columns(step).size(); }
  /// Columns that come before those of a step: the first row of its reflectors.
  std::int64_t before(Step step) const { return columns_.eliminated(step); }
  /// This rank's columns of the steps from one on.
  LocalRange columns_from(Step step) const;
  /// Rows that remain before a step of some of this rank's columns.
  MatrixView<T> remaining(Step step, LocalRange columns) const;
  /// A square of this rank's step.
  MatrixView<T> square(MatrixView<T> squares, Step step) const;
  /// n columns that are not R's yet: zeros below, R D^-1 above.
  MatrixView<const T> r_columns(Step step, std::int64_t rows);
  /// r_ and what is above it with rows turned so that R's diagonal is not negative.
  void turn_rows();
  void measure();

  mesh::Rank& rank_;
  const runtime::Kernels<T>& kernels_;
  const SlabLayout rows_;
  const SlabLayout columns_;
  Dealer<T> dealer_;
  MatrixView<T> slab_;       // reflectors, above them R but for its diagonal tiles
  MatrixView<T> r_;          // of this rank's steps: their tiles of R ...
  MatrixView<T> t_;          // ... and the triangular factors of their reflectors
  MatrixView<T> turns_;      // of all steps: diagonal, 1 or -1
  MatrixView<T> products_;   // V^H a in two parts, and t^H V^H a
  MatrixView<T> made_;       // columns of R on their way
  MatrixView<double> most_;  // the largest entry of each of this rank's columns of R D^-1
  const std::int64_t* exponents_ = nullptr;  // of D^-1, on the device
  double norm_ = 0.0;
};

}  // namespace shardsolve::dense::qr
