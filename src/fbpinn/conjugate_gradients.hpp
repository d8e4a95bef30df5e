/// Least squares by conjugate gradients.
#pragma once

#include <functional>
#include <limits>
#include <vector>

namespace shardsolve::fbpinn {

/// minimise ||A x - b||.
struct LeastSquaresProduct {
  std::function<std::vector<double>(const std::vector<double>& x)> multiply;          ///< A x
  std::function<std::vector<double>(const std::vector<double>& r)> multiply_adjoint;  ///< A^T r
  /// M^-1 s, for M near A^T A.
  std::function<std::vector<double>(std::vector<double> s)> precondition;
};

/// Where the steps end: where both the gradient and the gain are small, where the residual is
/// rounding, or after so many.
struct GradientGoal {
  double tolerance = 0.0;  ///< the gradient ||A^T r|| is small: beside ||r||,
  double floor = 0.0;      ///< or as a number
  /// The gain, the share of ||r||^2 that (A^T r)^T M^-1 A^T r is, is small. Of M = A^T A it is what
  /// a step can take away, also where A is so near to singular that the gradient says nothing.
  double gain = std::numeric_limits<double>::infinity();
  double least_residual = 0.0;  ///< ||r||
  int max_steps = 0;
};

/// How far it went.
struct GradientSteps {
  int iterations = 0;
  double gradient = 0.0;  ///< ||A^T r|| at the end, r computed anew
  double gain = 0.0;      ///< at the end
};

/// Makes x better: conjugate gradients for A^T A x = A^T b, without the product A^T A (CGLS:
/// Bjorck, Numerical Methods for Least Squares Problems, 7.4); x stays as it was if that is not
/// better. `residual`: b - A x on return. All sums in a fixed order.
GradientSteps conjugate_gradients(const LeastSquaresProduct& a, const std::vector<double>& b,
                                  const GradientGoal& goal, std::vector<double>& x,
                                  std::vector<double>& residual);

}  // namespace shardsolve::fbpinn
