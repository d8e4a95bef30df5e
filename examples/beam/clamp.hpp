/// Unknowns that are prescribed (Dirichlet conditions), in two ways.
#pragma once

#include "box_mesh.hpp"
#include "csr.hpp"

#include <cstdint>
#include <vector>

namespace beam {

enum class Elimination : std::uint8_t {
  rows,              ///< rows become those of the identity: the matrix is no longer symmetric
  rows_and_columns,  ///< columns as well, their part moves to the right-hand side
};

/// Unknowns whose displacement is 0.
class Clamp {
 public:
  /// All nodes with the least x.
  Clamp(const BoxMesh& mesh, Elimination elimination)
      : elimination_(elimination), is_held_(mesh.unknowns(), false) {
    const Counts along = mesh.nodes_along();
    for (std::int64_t unknown = 0; unknown < 3 * along[1] * along[2]; ++unknown) {
      is_held_[unknown] = true;
    }
  }

  bool holds(std::int64_t unknown) const { return is_held_[unknown]; }

  /// The residual of a held unknown is its displacement.
  void apply_to_residual(const Vector& u, Vector& residual) const {
    for (std::size_t i = 0; i < residual.size(); ++i) {
      if (is_held_[i]) residual[i] = u[i];
    }
  }

  /// Changes A x = b so that x_i = b_i for held unknowns; other entries of x stay what they are.
  void apply_to_system(Csr& a, Vector& b) const {
    for (std::int64_t row = 0; row < a.rows(); ++row) {
      for (std::int64_t k = a.row_pointers[row]; k < a.row_pointers[row + 1]; ++k) {
        const std::int64_t column = a.column_indices[k];
        if (is_held_[row]) {
          a.values[k] = row == column ? 1.0 : 0.0;
        } else if (is_held_[column] && elimination_ == Elimination::rows_and_columns) {
          b[row] -= a.values[k] * b[column];
          a.values[k] = 0.0;
        }
      }
    }
  }

 private:
  Elimination elimination_;
  std::vector<bool> is_held_;
};

}  // namespace beam
