/// Solves with a Cholesky factor on slabs.
#pragma once

#include "dense/shared/persistent_solve.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/slab_layout.hpp>

#include <memory>

namespace shardsolve::dense::cholesky {

/// Solves L L^H (P X) = P B with the rank's slab of the factor. LAPACK: potrs.
template <Scalar T>
class TriangularSolve {
 public:
  /// Takes workspace for min(columns, layout.tile()) right-hand sides. `columns`: the most that
  /// run() will be given; it solves for more than a tile of them in groups.
  TriangularSolve(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                  std::int64_t columns);
  ~TriangularSolve();

  /// Overwrites the rank's rows of B, at most as many columns as were announced, with those of X.
  void run(MatrixView<T> b);

 private:
  struct Sweeps;
  mesh::Rank& rank_;
  std::int64_t width_;
  std::unique_ptr<PersistentSolve<T>> persistent_;  // null: sweeps_ solve
  std::unique_ptr<Sweeps> sweeps_;
};

/// One sweep of the two: B := F^-1 B or F^-H B with F = P^T L P. LAPACK: trtrs.
template <Scalar T>
class HalfSolve {
 public:
  /// Takes workspace for up to `columns` columns at a time. `half`: one of the two solves.
  HalfSolve(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
            std::int64_t columns, Half half);
  ~HalfSolve();

  /// Overwrites the rank's rows of B.
  void run(MatrixView<T> b);

 private:
  struct Sweep;
  std::unique_ptr<Sweep> sweep_;
};

/// The two sweeps of a solve with the columns that a partial factorisation has eliminated: those of
/// the steps before `end`. Rows from there on are packed as SlabLayout::rows_from(end) has them.
template <Scalar T>
class PartialSolve {
 public:
  /// Takes workspace for right-hand sides of up to `columns` columns. `slab`: the eliminated
  /// columns, in all rows.
  PartialSolve(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab, Step end,
               std::int64_t columns);
  ~PartialSolve();

  /// b1 := L11^-1 b1, the rank's rows of it, and the rank's part of L21 b1 to `rest`.
  void forward(MatrixView<T> b1, MatrixView<T> rest);
  /// b1 := L11^-H (b1 - L21^H x2); x2 is whole on every rank.
  void back(MatrixView<T> b1, MatrixView<const T> x2);

 private:
  struct Sweeps;
  mesh::Rank& rank_;
  const SlabLayout& layout_;
  MatrixView<const T> slab_;
  Step end_;
  std::unique_ptr<Sweeps> sweeps_;
};

}  // namespace shardsolve::dense::cholesky
