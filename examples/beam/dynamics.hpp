/// Motion of a body by the generalised-alpha method (Chung and Hulbert, 1993) or Newmark's.
#pragma once

#include "body.hpp"
#include "clamp.hpp"
#include "csr.hpp"

#include <functional>
#include <utility>

namespace beam {

/// The equation of motion holds at t + (1 - alpha_f) dt, with accelerations weighted by alpha_m.
/// Both 0: Newmark's method with beta = 1/4 and gamma = 1/2, which keeps the energy of linear
/// bodies.
struct Scheme {
  double alpha_f = 0.0;
  double alpha_m = 0.0;

  double gamma() const { return 0.5 - alpha_m + alpha_f; }
  double beta() const { return 0.25 * (1 - alpha_m + alpha_f) * (1 - alpha_m + alpha_f); }
};

/// Rayleigh damping: forces C v, C = mass * M + stiffness * K of the body at rest.
struct Damping {
  double mass = 0.0;
  double stiffness = 0.0;
};

/// Displacements, velocities and accelerations.
struct Motion {
  Vector u;
  Vector v;
  Vector a;
};

/// M a + C v + f(u) = load(t) for one time step after the other, as the equation that
/// solve_newton() solves for the displacements at the end of the step.
class StepEquation {
 public:
  using Load = std::function<Vector(double t)>;

  /// Body and clamp outlive it.
  StepEquation(const Body& body, const Clamp& clamp, const Scheme& scheme, const Damping& damping,
               double dt, Load load)
      : body_(body),
        clamp_(clamp),
        scheme_(scheme),
        dt_(dt),
        load_of_(std::move(load)),
        mass_(body.mass()) {
    // Of the matrix of a step all but the stiffness: that stays as it is.
    const double beta = scheme.beta();
    constant_part_ = body.pattern();
    add((1 - scheme.alpha_m) / (beta * dt * dt), mass_.values, constant_part_.values);
    has_damping_ = damping.mass != 0.0 || damping.stiffness != 0.0;
    if (has_damping_) {
      damping_ = body.pattern();
      body.add_tangent(damping.stiffness, Vector(body.mesh().unknowns(), 0.0), damping_);
      add(damping.mass, mass_.values, damping_.values);
      add((1 - scheme.alpha_f) * scheme.gamma() / (beta * dt), damping_.values,
          constant_part_.values);
    }
    if (body.material().law == Law::linear) {
      body.add_tangent(1 - scheme.alpha_f, Vector(body.mesh().unknowns(), 0.0), constant_part_);
    }
  }

  /// A step from this motion at time t.
  void begin(const Motion& motion, double t) {
    before_ = motion;
    load_ = load_of_(t + (1 - scheme_.alpha_f) * dt_);
  }

  /// The motion at the end of the step that ends with displacements u.
  Motion motion(const Vector& u) const {
    const double beta = scheme_.beta();
    const double gamma = scheme_.gamma();
    Motion after{u, before_.v, Vector(u.size())};
    for (std::size_t i = 0; i < u.size(); ++i) {
      after.a[i] = (u[i] - before_.u[i] - dt_ * before_.v[i]) / (beta * dt_ * dt_) -
                   (1 - 2 * beta) / (2 * beta) * before_.a[i];
      after.v[i] += dt_ * ((1 - gamma) * before_.a[i] + gamma * after.a[i]);
    }
    return after;
  }

  Vector residual(const Vector& u) const {
    const Motion after = motion(u);
    Vector sum(u.size(), 0.0);
    add_product(1.0, mass_, between(scheme_.alpha_m, after.a, before_.a), sum);
    if (has_damping_) {
      add_product(1.0, damping_, between(scheme_.alpha_f, after.v, before_.v), sum);
    }
    body_.add_internal_force(between(scheme_.alpha_f, u, before_.u), sum);
    add(-1.0, load_, sum);
    clamp_.apply_to_residual(u, sum);
    return sum;
  }

  void linearise(const Vector& u, Csr& matrix, Vector& b) const {
    tangent(u, matrix);
    clamp_.apply_to_system(matrix, b);
  }

  /// The derivative of M a + C v + f(u) by the displacements u at the end of the step.
  void tangent(const Vector& u, Csr& matrix) const {
    matrix = constant_part_;
    if (body_.material().law == Law::linear) return;
    body_.add_tangent(1 - scheme_.alpha_f, between(scheme_.alpha_f, u, before_.u), matrix);
  }

  double kinetic_energy(const Vector& v) const {
    Vector momentum(v.size(), 0.0);
    add_product(0.5, mass_, v, momentum);
    return dot(v, momentum);
  }

 private:
  static Vector between(double alpha, const Vector& after, const Vector& before) {
    Vector mean(after.size(), 0.0);
    add(1 - alpha, after, mean);
    add(alpha, before, mean);
    return mean;
  }

  const Body& body_;
  const Clamp& clamp_;
  Scheme scheme_;
  double dt_;
  Load load_of_;
  Csr mass_;
  bool has_damping_ = false;
  Csr damping_;        // C, if there is any
  Csr constant_part_;  // of tangent()
  Motion before_;
  Vector load_;
};

}  // namespace beam
