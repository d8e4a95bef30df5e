/// The rank programs of qr.hpp.
#pragma once

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
};

/// Whether columns are dealt: where CholeskyQR would take more operations than reflections, which
/// is where R is more than half of A.
constexpr bool is_dealt(std::int64_t rows, std::int64_t columns) { return rows < 2 * columns; }

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

/// For any shape. The same on all ranks.
template <Scalar T>
LeastSquares<T> solve_rows(mesh::Rank& rank, const SlabLayout& layout, MatrixView<const T> a,
                           MatrixView<const T> b, const Request& request);

}  // namespace shardsolve::dense::qr
