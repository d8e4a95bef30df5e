/// The solution of a least-squares problem while it is refined: on the first rank.
#pragma once

#include <shardsolve/dtype.hpp>

#include <cstdint>
#include <vector>

namespace shardsolve::dense::qr {

/// The steps of refinement, and the error, in units of rounding, below which there is none.
inline constexpr int max_refinements = 2;
inline constexpr double refined_from = 1.0;
/// Above that many there is no answer: x is below the range, as it were.
inline constexpr double given_up_from = 1000.0;

/// What is found for some columns of B. Scales are powers of two: `x` of the caller and what is
/// computed with differ by exponents alone, unless x leaves the range.
template <Scalar T>
struct Solved {
  std::vector<T> x;               ///< column by column, as it is returned; on all ranks
  std::vector<double> residuals;  ///< ||b - A x||_2, of each column
  double backward_error = 0.0;    ///< the largest
  bool in_range = true;           ///< whether x is
};

/// Exponents of powers of two by which columns with these largest moduli come to [1/2, 1).
std::vector<std::int64_t> exponents_to_one(const std::vector<double>& maxima);

/// The least of three backward errors of one column, for norms of A, of x, and of r: P r is r
/// projected on the range of A.
double backward_error(double a, double x, double r, double projected, double adjoint);

}  // namespace shardsolve::dense::qr
