/// Newton's method, whose failures say whether a linear solve is at fault.
#pragma once

#include "csr.hpp"
#include "linear_solver.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

namespace beam {

struct NewtonOptions {
  /// Converged is ||r|| <= max(rtol ||r of the guess||, atol). Rounding alone leaves about 1e-9 in
  /// the beam of 1275 unknowns.
  double rtol = 1e-9;
  double atol = 1e-8;
  std::int64_t max_iterations = 25;
  /// To which each linear system is solved, relative to its right-hand side. Each iteration gains
  /// at most this factor. Rounding allows about 1e-10 in the beam of 1275 unknowns, and less in
  /// finer ones: the condition number is 6e6.
  double linear_rtol = 1e-8;
};

struct NewtonOutcome {
  bool converged = false;
  std::int64_t iterations = 0;
  std::int64_t linear_iterations = 0;      ///< of all its linear solves
  std::int64_t max_linear_iterations = 0;  ///< of one of them
  std::string message;                     ///< why it did not converge
};

inline std::string in_short(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", number);
  return text;
}

/// Solves r(u) = 0 from the guess in u. `equation` has residual(u), a Vector, and
/// linearise(u, matrix, b), which makes the system matrix * step = b of a step from u, b = -r(u) on
/// entry. Of each linear solve the residual is computed anew: an answer that claims more than it
/// keeps ends the iteration as one that failed.
template <class Equation>
NewtonOutcome solve_newton(Equation& equation, const LinearSolver& solve_linear,
                           const NewtonOptions& options, Vector& u) {
  NewtonOutcome outcome;
  Csr matrix;
  Vector step(u.size());
  double goal = options.atol;
  for (;; ++outcome.iterations) {
    Vector b = equation.residual(u);
    const double size = norm(b);
    if (outcome.iterations == 0) goal = std::max(options.atol, options.rtol * size);
    if (size <= goal) {
      outcome.converged = true;
      return outcome;
    }
    const std::string where = "Newton iteration " + std::to_string(outcome.iterations + 1);
    if (!std::isfinite(size)) {
      outcome.message = where + ": the residual is not finite, though every linear solve before " +
                        "met its tolerance; take shorter time steps";
      return outcome;
    }
    if (outcome.iterations == options.max_iterations) {
      outcome.message = "no convergence in " + std::to_string(options.max_iterations) +
                        " Newton iterations, residual " + in_short(size) + " instead of " +
                        in_short(goal) + ", though every linear solve met its tolerance; " +
                        "take shorter time steps, or see whether the tangent is that of the force";
      return outcome;
    }

    for (double& entry : b) {
      entry = -entry;
    }
    equation.linearise(u, matrix, b);
    const LinearOutcome linear = solve_linear(matrix, b, options.linear_rtol, step);
    outcome.linear_iterations += linear.iterations;
    outcome.max_linear_iterations = std::max(outcome.max_linear_iterations, linear.iterations);
    const double reached = residual_norm(matrix, b, step) / norm(b);
    // With room for the rounding of this residual itself.
    if (!linear.is_solved || !(reached <= 1.1 * options.linear_rtol)) {
      outcome.message = where + ": the linear solve failed, relative residual " +
                        in_short(reached) + " instead of " + in_short(options.linear_rtol);
      if (!linear.message.empty()) outcome.message += ": " + linear.message;
      return outcome;
    }
    add(1.0, step, u);
  }
}

}  // namespace beam
