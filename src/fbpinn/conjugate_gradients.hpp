/// Least squares by conjugate gradients.
#pragma once

#include <functional>
#include <vector>

namespace shardsolve::fbpinn {

/// minimise ||A x - b||.
struct LeastSquaresProduct {
  std::function<std::vector<double>(const std::vector<double>& x)> multiply;          ///< A x
  std::function<std::vector<double>(const std::vector<double>& r)> multiply_adjoint;  ///< A^T r
  /// M^-1 s, for M near A^T A.
  std::function<std::vector<double>(std::vector<double> s)> precondition;
};

/// How far it went.
struct GradientSteps {
  int iterations = 0;
  double gradient = 0.0;  ///< ||A^T r|| at the end, r computed anew
};

/// Makes x better: conjugate gradients for A^T A x = A^T b, without the product A^T A (CGLS:
/// Bjorck, Numerical Methods for Least Squares Problems, 7.4). Ends where ||A^T r|| is at most
/// `tolerance` times ||r||, or `floor`, or after `most` iterations; x stays as it was if that is
/// not better. `residual`: b - A x on return. All sums in a fixed order.
GradientSteps conjugate_gradients(const LeastSquaresProduct& a, const std::vector<double>& b,
                                  double tolerance, double floor, int most, std::vector<double>& x,
                                  std::vector<double>& residual);

}  // namespace shardsolve::fbpinn
