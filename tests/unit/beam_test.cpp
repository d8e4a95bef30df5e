// The beam of examples/beam: its elements, its tangent, its solver and its first steps.

#include "examples/beam/banded_lu.hpp"
#include "examples/beam/body.hpp"
#include "examples/beam/cases.hpp"
#include "examples/beam/checks.hpp"
#include "examples/beam/clamp.hpp"
#include "examples/beam/csr.hpp"
#include "examples/beam/krylov_solver.hpp"
#include "examples/beam/newton.hpp"
#include "examples/beam/simulation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace beam {
namespace {

using ::testing::HasSubstr;

const Box small_box{{0.0, -0.5, -1.0}, {2.0, 0.7, 0.5}};

Body small_body(Law law, const Counts& divisions = {2, 2, 1}) {
  return {BoxMesh(small_box, divisions), elastic(law, 3.0, 0.3), 2.0};
}

bool is_inside(const Point& x) {
  for (int axis = 0; axis < 3; ++axis) {
    if (x[axis] < small_box.low[axis] + 1e-9 || x[axis] > small_box.high[axis] - 1e-9) return false;
  }
  return true;
}

Vector random_vector(std::int64_t size, double largest) {
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<double> entry(-largest, largest);
  Vector v(size);
  for (double& x : v) {
    x = entry(generator);
  }
  return v;
}

Vector internal_force(const Body& body, const Vector& u) {
  Vector force(u.size(), 0.0);
  body.add_internal_force(u, force);
  return force;
}

Csr tangent(const Body& body, const Vector& u) {
  Csr matrix = body.pattern();
  body.add_tangent(1.0, u, matrix);
  return matrix;
}

class BeamLaw : public ::testing::TestWithParam<Law> {};

std::string name_of(const ::testing::TestParamInfo<Law>& info) {
  switch (info.param) {
    case Law::linear:
      return "Linear";
    case Law::st_venant_kirchhoff:
      return "StVenantKirchhoff";
    case Law::faulty:
      return "Faulty";
  }
  return {};
}

INSTANTIATE_TEST_SUITE_P(Laws, BeamLaw,
                         ::testing::Values(Law::linear, Law::st_venant_kirchhoff, Law::faulty),
                         name_of);

// The patch test: where F is the same everywhere, so is P, and forces balance but on the surface.
TEST_P(BeamLaw, ConstantStrain_LeavesNoForceInside) {
  const Body body = small_body(GetParam(), {2, 2, 2});
  const Tensor2 g{{{0.02, 0.05, -0.01}, {-0.03, 0.01, 0.04}, {0.06, -0.02, 0.03}}};
  Vector u(body.mesh().unknowns());
  Tensor2 f = g;
  for (int i = 0; i < 3; ++i) {
    f[i][i] += 1.0;
  }
  for (std::int64_t node = 0; node < body.mesh().nodes(); ++node) {
    const Point x = body.mesh().position(node);
    for (int i = 0; i < 3; ++i) {
      u[3 * node + i] = g[i][0] * x[0] + g[i][1] * x[1] + g[i][2] * x[2];
    }
  }

  const Vector force = internal_force(body, u);
  const Tensor2 p = stress(body.material(), f);
  const double volume = 2.0 * 1.2 * 1.5;
  Point work{};  // of the force along each axis, by displacements x e_i: the integral of P[i][0]
  for (std::int64_t node = 0; node < body.mesh().nodes(); ++node) {
    const Point x = body.mesh().position(node);
    for (int i = 0; i < 3; ++i) {
      work[i] += x[0] * force[3 * node + i];
      if (is_inside(x)) {
        EXPECT_NEAR(force[3 * node + i], 0.0, 1e-14) << "node " << node;
      }
    }
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(work[i], volume * p[i][0], 1e-13);
  }
}

TEST_P(BeamLaw, Tangent_IsTheDerivativeOfTheForce) {
  const Body body = small_body(GetParam());
  const Vector u = random_vector(body.mesh().unknowns(), 0.05);
  const Vector direction = random_vector(body.mesh().unknowns(), 1.0);
  const double h = 1e-5;
  Vector above = u;
  Vector below = u;
  add(h, direction, above);
  add(-h, direction, below);
  Vector difference = internal_force(body, above);
  add(-1.0, internal_force(body, below), difference);

  Vector product(u.size(), 0.0);
  add_product(2 * h, tangent(body, u), direction, product);
  const double size = norm(product);
  add(-1.0, difference, product);
  EXPECT_LT(norm(product), 1e-8 * size);
}

TEST_P(BeamLaw, Tangent_IsSymmetricUnlessTheLawIsFaulty) {
  const Body body = small_body(GetParam());
  const double found = asymmetry(tangent(body, random_vector(body.mesh().unknowns(), 0.05)));
  if (GetParam() == Law::faulty) {
    EXPECT_GT(found, 1e-3);
  } else {
    EXPECT_LT(found, 1e-14);
  }
}

TEST(Beam, ForceOfALawWithEnergy_IsItsDerivative) {
  for (const Law law : {Law::linear, Law::st_venant_kirchhoff}) {
    const Body body = small_body(law);
    const Vector u = random_vector(body.mesh().unknowns(), 0.05);
    const Vector direction = random_vector(body.mesh().unknowns(), 1.0);
    const double h = 1e-5;
    Vector above = u;
    Vector below = u;
    add(h, direction, above);
    add(-h, direction, below);
    const double slope = (body.elastic_energy(above) - body.elastic_energy(below)) / (2 * h);
    EXPECT_NEAR(dot(internal_force(body, u), direction), slope, 1e-7 * std::abs(slope));
  }
}

TEST(Beam, SizesAreThoseOfTheReference) {
  const BoxMesh mesh(cantilever, reference_divisions);
  EXPECT_EQ(mesh.unknowns(), 1275);
  EXPECT_EQ(Body(mesh, {}, 1.0).pattern().entries(), 169065);
  const Point at_tip = mesh.position(mesh.nearest_node(tip));
  for (int axis = 0; axis < 3; ++axis) {
    EXPECT_NEAR(at_tip[axis], tip[axis], 1e-14);
  }
}

TEST(Beam, MassAndLoad_AddUpToThoseOfTheBody) {
  const Body body = small_body(Law::linear);
  const double volume = 2.0 * 1.2 * 1.5;
  const Vector load = body.load({1.0, 0.0, -3.0});
  Vector along_z(load.size(), 0.0);
  for (std::size_t i = 2; i < along_z.size(); i += 3) {
    along_z[i] = 1.0;
  }
  EXPECT_NEAR(dot(load, along_z), -3.0 * volume, 1e-13);
  Vector momentum(load.size(), 0.0);
  add_product(1.0, body.mass(), along_z, momentum);
  EXPECT_NEAR(dot(momentum, along_z), 2.0 * volume, 1e-13);
}

TEST(BeamBandedLu, Solution_HasTheResidualThatWasAskedFor) {
  const Body body = small_body(Law::st_venant_kirchhoff);
  const BoxMesh& mesh = body.mesh();
  Csr a = tangent(body, random_vector(mesh.unknowns(), 0.02));
  Vector b = random_vector(mesh.unknowns(), 1.0);
  Clamp(mesh, Elimination::rows).apply_to_system(a, b);
  Vector x(b.size(), NAN);
  BandedLu lu;
  for (int call = 0; call < 2; ++call) {  // the second one with the factors of the first
    const LinearOutcome outcome = lu(a, b, 1e-12, x);
    EXPECT_TRUE(outcome.is_solved) << outcome.message;
    EXPECT_LE(residual_norm(a, b, x), 1e-12 * norm(b));
  }
}

TEST(BeamBandedLu, SingularMatrix_IsNamed) {
  const Csr zero{{0, 1, 2}, {0, 1}, {1.0, 0.0}};
  Vector x;
  const LinearOutcome outcome = BandedLu()(zero, {1.0, 1.0}, 1e-12, x);
  EXPECT_FALSE(outcome.is_solved);
  EXPECT_THAT(outcome.message, HasSubstr("row 1"));
}

TEST(BeamClamp, BothEliminations_HaveTheSameSolution) {
  const Body body = small_body(Law::st_venant_kirchhoff);
  const BoxMesh& mesh = body.mesh();
  const Csr matrix = tangent(body, random_vector(mesh.unknowns(), 0.02));
  const Vector rhs = random_vector(mesh.unknowns(), 1.0);
  Vector solutions[2];
  double asymmetries[2];
  int way = 0;
  for (const Elimination elimination : {Elimination::rows, Elimination::rows_and_columns}) {
    Csr a = matrix;
    Vector b = rhs;
    Clamp(mesh, elimination).apply_to_system(a, b);
    EXPECT_TRUE(BandedLu()(a, b, 1e-12, solutions[way]).is_solved);
    asymmetries[way++] = asymmetry(a);
  }
  EXPECT_DOUBLE_EQ(solutions[0][0], rhs[0]);  // of a held unknown
  add(-1.0, solutions[0], solutions[1]);
  EXPECT_LT(norm(solutions[1]), 1e-9 * norm(solutions[0]));
  EXPECT_GT(asymmetries[0], 1e-3);
  EXPECT_LT(asymmetries[1], 1e-14);
}

TEST(BeamNewton, LinearSolveThatClaimsTooMuch_IsNamed) {
  Settings settings;
  settings.divisions = {1, 1, 1};
  const LinearSolver liar = [](const Csr&, const Vector& b, double, Vector& x) -> LinearOutcome {
    x = b;
    return {true, 17, "breakdown"};
  };
  const History history = simulate(case_named("linear"), settings, liar);
  EXPECT_THAT(history.failure, HasSubstr("step 1, Newton iteration 1: the linear solve failed"));
  EXPECT_THAT(history.failure, HasSubstr("breakdown"));
  EXPECT_TRUE(history.records.empty());
}

// x^2 + 1, which has no root; linear solves are exact.
struct WithoutRoot {
  Vector residual(const Vector& x) const { return {x[0] * x[0] + 1.0}; }
  void linearise(const Vector& x, Csr& a, Vector&) const { a = {{0, 1}, {0}, {2 * x[0]}}; }
};

TEST(BeamNewton, NoConvergence_IsNotBlamedOnTheLinearSolver) {
  WithoutRoot equation;
  Vector x{0.7};
  const NewtonOutcome outcome = solve_newton(equation, BandedLu(), {}, x);
  EXPECT_FALSE(outcome.converged);
  EXPECT_THAT(outcome.message, HasSubstr("every linear solve met its tolerance"));
}

Vector last_frame(const KrylovSettings& krylov, Elimination elimination, std::string& failure) {
  Settings settings;
  settings.divisions = {4, 1, 1};
  settings.until = 0.01;
  settings.frame_every = 2;
  settings.elimination = elimination;
  KrylovSolver solver(krylov);
  const History history = simulate(case_named("stvk-newmark"), settings, std::ref(solver));
  failure = history.failure;
  return history.frames.back().displacements;
}

TEST(BeamKrylov, Ranks_ChangeNoBit) {
  for (const Preconditioner preconditioner : {Preconditioner::jacobi, Preconditioner::blocks}) {
    KrylovSettings krylov{.preconditioner = preconditioner, .block_rows = 54};
    std::string failure;
    const Vector alone = last_frame(krylov, Elimination::rows_and_columns, failure);
    EXPECT_EQ(failure, "");
    EXPECT_GT(norm(alone), 0.0);
    krylov.ranks = 3;
    EXPECT_EQ(last_frame(krylov, Elimination::rows_and_columns, failure), alone);
  }
}

TEST(BeamKrylov, CgOfRowsOnly_IsToldThatTheMatrixIsNotSymmetric) {
  std::string failure;
  last_frame({}, Elimination::rows, failure);
  EXPECT_THAT(failure, HasSubstr("step 1, Newton iteration 1: the linear solve failed"));
  EXPECT_THAT(failure, HasSubstr("nonsymmetric_operator"));
}

// Forty steps, to the end of the load.
TEST(Beam, NonlinearTips_AreThoseOfTheReference) {
  Settings settings;
  settings.until = load_end;
  for (const Elimination elimination : {Elimination::rows, Elimination::rows_and_columns}) {
    settings.elimination = elimination;
    const std::string name = elimination == Elimination::rows ? "stvk-alpha" : "faulty-alpha";
    const Case& one = case_named(name);
    const std::vector<Check> found = check(one, simulate(one, settings, BandedLu()));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_TRUE(found[0].passed) << name << ": " << found[0].text;
  }
}

}  // namespace
}  // namespace beam
