/// Right-hand sides and residuals of solves: largest entries, and scales that keep products in
/// range.
#pragma once

#include "mesh/rank.hpp"

#include <shardsolve/outcome.hpp>
#include <shardsolve/scaled.hpp>
#include <shardsolve/slab_layout.hpp>

#include <vector>

namespace shardsolve::dense {

/// max_i |a_ij| of each column over the rows of all ranks.
template <Scalar T>
std::vector<double> column_maxima(mesh::Rank& rank, MatrixView<const T> a);

bool all_finite(const std::vector<double>& values);

/// What is known of right-hand sides before they are solved for; the same on every rank.
struct CheckedSides {
  Outcome outcome;             ///< ok or nonfinite_input
  std::vector<double> maxima;  ///< the largest entry of each column
};

/// One look at the rank's rows of B. Throws Error(cancelled), on all ranks, if one is asked to
/// stop.
template <Scalar T>
CheckedSides check_right_hand_sides(mesh::Rank& rank, const SlabLayout& layout,
                                    MatrixView<const T> b);

/// Exponent of the power of two by which a column of x and of b, with these largest entries, is
/// multiplied so that the products with A neither overflow nor drown in denormals; 0 nearly always.
template <Scalar T>
int residual_exponent(Scaled norm, double x_max, double b_max);

/// Multiplies each column of `a` by a power of two.
template <Scalar T>
void scale_columns(mesh::Rank& rank, MatrixView<T> a, const std::vector<int>& exponents);

/// For each column of x that is not finite, the exponent of the power of two to multiply b by: as
/// far down as one factor leads without losing much of b.
template <Scalar T>
std::vector<int> exponents_of_second_try(const std::vector<double>& b_maxima,
                                         const std::vector<double>& x_maxima);

}  // namespace shardsolve::dense
