/// Solves with a Cholesky factor on slabs.
#pragma once

#include "dense/cholesky/persistent_solve.hpp"
#include "mesh/rank.hpp"

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

}  // namespace shardsolve::dense::cholesky
