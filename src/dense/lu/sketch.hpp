/// What certifies answers where the factor has overwritten A: a few sums of its rows and of its
/// columns with random signs.
#pragma once

#include "dense/lu/factor_part.hpp"
#include "mesh/rank.hpp"
#include "runtime/kernel_arguments.hpp"

#include <shardsolve/scaled.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::lu {

/// Vectors of signs, the columns of G: ||r|| is the size of G^T r, at most four times as large in
/// all but one case of some 8000.
inline constexpr std::int64_t sketch_vectors = 8;
/// Of each row: A^T G and A G, divided by a power of two near ||A||_1, summed in twice the
/// precision and rounded: half a unit of it beside ||A||_F ||x||, at most.
inline constexpr std::int64_t sketch_columns = 2 * sketch_vectors;

/// Writes the rank's rows of the sketch, which is of `sketch_columns` columns. Returns ||A||_F, of
/// the sketch likewise; the same on all ranks. Reads A twice.
template <Scalar T>
Scaled make_sketch(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                   Scaled one_norm, MatrixView<T> sketch);

/// Of a sketch the first half alone, A^T G, in `sketch_vectors` columns. Reads A once.
template <Scalar T>
void make_half_sketch(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> slab,
                      Scaled one_norm, MatrixView<T> half);

/// The power of two that A is divided by in a sketch.
template <Scalar T>
int sketch_exponent(Scaled one_norm);

/// The rank's rows of G times `size`, in memory of its device.
template <Scalar T>
MatrixView<T> place_signs(mesh::Rank& rank, const SlabLayout& layout, double size);

/// Backward errors by the sketch of a factor.
template <Scalar T>
class SketchedErrors {
 public:
  /// For X of up to `columns` columns.
  SketchedErrors(mesh::Rank& rank, const FactorPart<T>& factor, std::int64_t columns);

  /// Of each column the estimate of ||op(A) x - b|| / (||A||_F ||x|| + ||b||), in 2-norms: the size
  /// in the Frobenius norm of the smallest change of A and b for which x is exact, relative to
  /// theirs (J. L. Rigal, J. Gaches, 1967). `x`, `b`: this rank's rows; their largest entries.
  /// Waits.
  std::vector<double> run(runtime::Op op, MatrixView<const T> x,
                          const std::vector<double>& x_maxima, MatrixView<const T> b,
                          const std::vector<double>& b_maxima);

 private:
  std::vector<double> sums_of(runtime::Op op, MatrixView<const T> a, MatrixView<const T> x);

  mesh::Rank& rank_;
  const FactorPart<T>& factor_;
  MatrixView<T> signs_;  // this rank's rows of G
  MatrixView<T> scaled_x_;
  MatrixView<T> scaled_b_;
  MatrixView<T> sums_;
  MatrixView<double> sizes_;
};

}  // namespace shardsolve::dense::lu
