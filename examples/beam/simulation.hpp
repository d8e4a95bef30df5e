/// One case from rest to the end, and what it leaves behind.
#pragma once

#include "body.hpp"
#include "cases.hpp"
#include "clamp.hpp"
#include "dynamics.hpp"
#include "linear_solver.hpp"
#include "newton.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace beam {

struct Settings {
  Counts divisions = reference_divisions;
  std::int64_t steps = reference_steps;  ///< from 0 to whole_time, if `until` does not end them
  double until = whole_time;
  Elimination elimination = Elimination::rows_and_columns;
  NewtonOptions newton;
  std::int64_t frame_every = 10;  ///< steps from one frame to the next
};

/// The end of one time step.
struct Record {
  double t = 0.0;
  Point tip{};  ///< displacement
  double elastic_energy = 0.0;
  double kinetic_energy = 0.0;
  std::int64_t newton_iterations = 0;
  std::int64_t linear_iterations = 0;      ///< of all its linear solves
  std::int64_t max_linear_iterations = 0;  ///< of one of them
};

struct Frame {
  double t = 0.0;
  Vector displacements;
};

struct History {
  std::vector<Record> records;  ///< of the steps that were made
  std::vector<Frame> frames;    ///< the first is that of the beam at rest
  double asymmetry = 0.0;  ///< of the tangent without its held unknowns: the largest of some steps
  std::string failure;     ///< why it ended before its time; empty if it did not
};

/// Called after each step.
using Watch = std::function<void(const Record&)>;

/// The case from rest until settings.until, or until a step fails.
inline History simulate(
    const Case& chosen, const Settings& settings, const LinearSolver& solver,
    const Watch& watch = [](const Record&) {}) {
  const BoxMesh mesh(cantilever, settings.divisions);
  const Body body(mesh, elastic(chosen.law, young, poisson), density);
  const Clamp clamp(mesh, settings.elimination);
  const Clamp symmetric_clamp(mesh, Elimination::rows_and_columns);
  const double dt = whole_time / static_cast<double>(settings.steps);
  StepEquation equation(body, clamp, chosen.scheme, chosen.damping, dt,
                        [&](double t) { return body.load(body_force(t)); });

  const Vector zero(mesh.unknowns(), 0.0);
  Motion motion{zero, zero, zero};
  const std::int64_t tip_unknown = 3 * mesh.nearest_node(tip);
  History history;
  history.frames.push_back({0.0, zero});
  const auto last_step = static_cast<std::int64_t>(std::llround(settings.until / dt));
  for (std::int64_t step = 1; step <= last_step; ++step) {
    const double t = dt * static_cast<double>(step);
    equation.begin(motion, t - dt);
    if (step % 20 == 0) {
      Csr tangent;
      Vector unused = zero;
      equation.tangent(motion.u, tangent);
      symmetric_clamp.apply_to_system(tangent, unused);
      history.asymmetry = std::max(history.asymmetry, asymmetry(tangent));
    }

    // The guess is the displacement before the step.
    Vector u = motion.u;
    const NewtonOutcome outcome = solve_newton(equation, solver, settings.newton, u);
    if (!outcome.converged) {
      history.failure = "step " + std::to_string(step) + ", " + outcome.message;
      return history;
    }
    motion = equation.motion(u);

    history.records.push_back({t,
                               {u[tip_unknown], u[tip_unknown + 1], u[tip_unknown + 2]},
                               body.elastic_energy(u),
                               equation.kinetic_energy(motion.v),
                               outcome.iterations,
                               outcome.linear_iterations,
                               outcome.max_linear_iterations});
    if (step % settings.frame_every == 0) history.frames.push_back({t, u});
    watch(history.records.back());
  }
  return history;
}

}  // namespace beam
