#include "fbpinn/conjugate_gradients.hpp"

#include <cmath>
#include <cstddef>
#include <utility>

namespace shardsolve::fbpinn {
namespace gradients {

double dot(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += x[i] * y[i];
  }
  return sum;
}

void add(double factor, const std::vector<double>& x, std::vector<double>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] += factor * x[i];
  }
}

std::vector<double> residual_of(const LeastSquaresProduct& a, const std::vector<double>& b,
                                const std::vector<double>& x) {
  std::vector<double> r = a.multiply(x);
  for (std::size_t i = 0; i < r.size(); ++i) {
    r[i] = b[i] - r[i];
  }
  return r;
}

}  // namespace gradients

GradientSteps conjugate_gradients(const LeastSquaresProduct& a, const std::vector<double>& b,
                                  const GradientGoal& goal, std::vector<double>& x,
                                  std::vector<double>& residual) {
  using namespace gradients;
  GradientSteps steps;
  residual = residual_of(a, b, x);
  const double norm_before = std::sqrt(dot(residual, residual));
  std::vector<double> s = a.multiply_adjoint(residual);
  steps.gradient = std::sqrt(dot(s, s));
  const double gradient_before = steps.gradient;
  std::vector<double> better = x;
  std::vector<double> r = residual;
  std::vector<double> p = a.precondition(s);
  double gamma = dot(s, p);
  double gradient = steps.gradient;
  const auto gain_of = [](double gamma, double size) { return size > 0.0 ? gamma / size : 0.0; };
  steps.gain = gain_of(gamma, dot(residual, residual));
  const auto is_done = [&] {
    const double size = dot(r, r);
    const double norm = std::sqrt(size);
    const bool is_small = gradient <= goal.tolerance * norm || gradient <= goal.floor;
    return (is_small && gain_of(gamma, size) <= goal.gain) || norm <= goal.least_residual ||
           !(gamma > 0.0);
  };
  while (steps.iterations < goal.max_steps && !is_done()) {
    const std::vector<double> q = a.multiply(p);
    const double size = dot(q, q);
    if (!(size > 0.0)) {
      break;
    }
    add(gamma / size, p, better);
    add(-gamma / size, q, r);
    s = a.multiply_adjoint(r);
    gradient = std::sqrt(dot(s, s));
    std::vector<double> w = a.precondition(s);
    const double next = dot(s, w);
    add(next / gamma, p, w);
    p = std::move(w);
    gamma = next;
    ++steps.iterations;
  }
  if (steps.iterations == 0) {
    return steps;
  }
  r = residual_of(a, b, better);
  s = a.multiply_adjoint(r);
  gradient = std::sqrt(dot(s, s));
  const double norm = std::sqrt(dot(r, r));
  // A smaller residual is better, and of equal ones the one with the smaller gradient.
  if (norm < (1.0 - 1e-12) * norm_before || (norm <= norm_before && gradient < gradient_before)) {
    x = std::move(better);
    residual = std::move(r);
    steps.gradient = gradient;
    steps.gain = gain_of(gamma, dot(residual, residual));
  }
  return steps;
}

}  // namespace shardsolve::fbpinn
