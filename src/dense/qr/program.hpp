/// The rank programs of qr.hpp.
#pragma once

#include "dense/qr/factor.hpp"
#include "dense/qr/solution.hpp"
#include "mesh/rank.hpp"

#include <shardsolve/mesh.hpp>
#include <shardsolve/qr.hpp>
#include <shardsolve/slab_layout.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace shardsolve::dense::qr {

/// Right-hand sides that are solved for at a time.
inline constexpr std::int64_t max_sides = 32;

/// What is asked of a least-squares problem.
struct Request {
  bool by_singular_values = false;  ///< the shortest x, whatever the rank
  double rcond = 0.0;               ///< what counts as 0 then, relative to the largest one
  double damping = 0.0;             ///< of x: sqrt(eps) I stands below A
  int refinements = max_refinements;
  bool dealt = false;  ///< as factor_in_columns() has it, not in passes
};

/// Whether columns are dealt: where CholeskyQR would take more operations than reflections, which
/// is where R is more than half of A.
constexpr bool is_dealt(std::int64_t rows, std::int64_t columns) { return rows < 2 * columns; }

/// Likewise for least squares, on CPU ranks; damping makes matrices tall.
constexpr bool solves_dealt(std::int64_t rows, std::int64_t columns, double damping,
                            Memory memory) {
  return memory == Memory::host && damping == 0.0 &&
         (rows < columns ? is_dealt(columns, rows) : is_dealt(rows, columns));
}

/// Whether lstsq() finds the singular values of R, which has as many columns, by svd() over all
/// ranks, in programs one after the other, and not on the first rank alone. LAPACK there is silent,
/// and cannot be cancelled; rotations on a GPU take far more time. Measured: docs/design/qr.md.
constexpr bool is_in_steps(std::int64_t columns, std::int64_t ranks, Memory memory) {
  if (memory == Memory::device) {
    return columns >= 512;
  }
  return columns >= (ranks > 1 ? 1536 : 3072);
}

/// What is asked of a factorisation.
template <Scalar T>
struct FactorRequest {
  QrMode mode = QrMode::reduced;
  bool dealt = false;  ///< is_dealt()
  /// For this rank's rows of [R; 0]; without it R goes to the host, of the ranks that lead at
  /// least.
  std::optional<MatrixView<T>> r;
};

/// Q in place of `a` and R, or R alone. The outcome is the same on all ranks.
template <Scalar T>
QrFactor<T> factor_rows(mesh::Rank& rank, const SlabLayout& layout, MatrixView<T> a,
                        const FactorRequest<T>& request);

/// How many of these, which descend, count as more than 0.
std::int64_t rank_of(const std::vector<double>& singular_values, double rcond);

/// What lstsq() of many columns has found before it solves: A = Q R, or A^H if that has more rows.
template <Scalar T>
struct Prepared {
  std::optional<RowBlocks<T>> q;
  std::optional<RowBlocks<WideOf<T>>> r;  ///< as of Factored; the first rank has all of its rows
  std::vector<std::int64_t> exponents;
  std::vector<double> values;             ///< singular values of what undo_scales() makes of R
  std::optional<RowBlocks<WideOf<T>>> u;  ///< and their vectors; only where not all values count
  std::optional<RowBlocks<WideOf<T>>> v;
};

/// For any shape. The same on all ranks. Without `prepared` it factors A itself.
template <Scalar T>
LeastSquares<T> solve_rows(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> a,
                           MatrixView<const T> b, const Request& request,
                           const Prepared<T>* prepared = nullptr);

/// Memory for a rank's part of what prepare_rows() makes.
template <Scalar T>
struct Places {
  MatrixView<T> q;
  MatrixView<WideOf<T>> r;          ///< all of R; on the first rank alone
  MatrixView<WideOf<T>> rows_of_r;  ///< of undo_scales(), as `square` cuts them
  SlabLayout square;
};

/// What a diagonal of R says before there are singular values.
struct Preparation {
  std::vector<std::int64_t> exponents;  ///< as of Factored
  /// Whether R has less than full rank for certain: the smallest singular value is at most the
  /// smallest of its diagonal, and the largest one at least the largest.
  bool misses_rank = false;
};

/// A, or A^H, is Q R: in `places`. The outcome is nonfinite_input or ok.
template <Scalar T>
Outcome prepare_rows(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> a,
                     MatrixView<const T> b, const Request& request, const Places<T>& places,
                     Preparation& prepared);

}  // namespace shardsolve::dense::qr
