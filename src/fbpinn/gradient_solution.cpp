// The least-squares problem of all boxes without a factor: memory is the features' alone.

#include "fbpinn/block_system.hpp"
#include "fbpinn/conjugate_gradients.hpp"

#include <chrono>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace shardsolve::fbpinn {

// Columns of a box are orthonormal, and so are those of the border made here: the diagonal blocks
// of (Q, C)^T (Q, C) are unit matrices, as with a block-Jacobi preconditioner.
auto BlockSystem::solve_by_cg(const sparse::BlockGraph& graph, const std::vector<double>& b,
                              MatrixView<const double> border_columns, double border_tolerance,
                              double tolerance, int max_steps, const sparse::Workers& workers) const
    -> Solution {
  const auto start = std::chrono::steady_clock::now();
  workers.enter("solve");
  const std::vector<std::int64_t> offsets = graph.offsets();
  const auto n = static_cast<std::ptrdiff_t>(offsets.back());
  const std::vector<double> none(static_cast<std::size_t>(n), 0.0);
  Border border;
  if (border_columns.columns() > 0) {
    border = Border(
        border_columns, [&](const auto& /*y*/) { return std::vector<double>(b.size(), 0.0); },
        [&](const auto& r) { return std::vector<std::vector<double>>(r.size(), none); },
        border_tolerance, workers);
  }
  const LeastSquaresProduct product{
      [&](const std::vector<double>& x) {
        const std::vector<double> y(x.begin(), x.begin() + n);
        const std::vector<double> z(x.begin() + n, x.end());
        std::vector<double> result = multiply(offsets, y, workers);
        std::vector<double> of_border(result.size(), 0.0);
        border.subtract(z, of_border);
        for (std::size_t i = 0; i < result.size(); ++i) {
          result[i] -= of_border[i];
        }
        return result;
      },
      [&](const std::vector<double>& r) {
        std::vector<double> result = multiply_adjoint(offsets, r, workers);
        const std::vector<double> of_border = border.multiply_adjoint(r);
        result.insert(result.end(), of_border.begin(), of_border.end());
        return result;
      },
      [](std::vector<double> s) { return s; }};
  Solution solution;
  std::vector<double> x(static_cast<std::size_t>(n + border.rank()), 0.0);
  double size = 0.0;
  for (const double value : b) {
    size += value * value;
  }
  constexpr double rounding = 1e-15;
  const GradientSteps steps = conjugate_gradients(
      product, b,
      {.tolerance = tolerance, .floor = rounding * std::sqrt(size), .max_steps = max_steps}, x,
      solution.residual);
  double left = 0.0;
  for (const double value : solution.residual) {
    left += value * value;
  }
  solution.cg_steps = steps.iterations;
  solution.certificate = left > 0.0 ? steps.gradient / std::sqrt(left) : 0.0;
  // Of a residual that is rounding a small gradient cannot be asked.
  constexpr double nothing = 1e-14;
  solution.is_limited = solution.certificate > tolerance && left > nothing * nothing * size;
  solution.border_rank = border.rank();
  solution.y.assign(x.begin(), x.begin() + n);
  solution.z = border.weights_of(std::vector<double>(x.begin() + n, x.end()), solution.y);
  solution.solve_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return solution;
}

}  // namespace shardsolve::fbpinn
