// Krylov solves on ranks: the same bits on any cut, true verdicts, and the cases that others get
// wrong.

#include "support/dtypes.hpp"
#include "support/krylov_problems.hpp"

#include <shardsolve/krylov.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <utility>
#include <vector>

namespace shardsolve::testing::krylov_problems {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Status;
using ::testing::HasSubstr;

/// A mesh for each number of ranks, kept for all tests.
Mesh& mesh_of(std::int64_t ranks) {
  static std::map<std::int64_t, Mesh> meshes;
  const auto found = meshes.find(ranks);
  return found != meshes.end() ? found->second
                               : meshes.emplace(ranks, Mesh::host(ranks)).first->second;
}

template <Scalar T>
Answer<T> solve_alone(const System<T>& system, const Options& options, bool jacobi = false) {
  const Operator<T> m = jacobi_of(system);
  return solve_on(mesh_of(1), SlabLayout::even(system.n, 1, 1), system, operator_of(system),
                  jacobi ? &m : nullptr, options);
}

template <Scalar T>
double loose_rtol() {
  return 1e5 * unit_roundoff<T>;
}

/// Checks that a verdict "converged" is true, and that these cuts give the same bits.
template <Scalar T>
Answer<T> solve_on_cuts(const std::vector<SlabLayout>& cuts, const System<T>& system,
                        const Options& options, bool jacobi) {
  const Operator<T> a = operator_of(system);
  const Operator<T> m = jacobi_of(system);
  const Answer<T> alone = solve_alone(system, options, jacobi);
  for (const SlabLayout& layout : cuts) {
    EXPECT_TRUE(same_bits(
        solve_on(mesh_of(layout.ranks()), layout, system, a, jacobi ? &m : nullptr, options),
        alone))
        << system.name << " on " << layout.ranks();
  }
  EXPECT_TRUE(all_finite(alone.x));
  if (krylov::is_converged(alone.result.status) && options.atol == 0.0) {
    EXPECT_LE(
        true_residual(system, alone.x),
        1.01 * options.rtol.value_or(krylov::default_rtol(dtype_of<T>)) + 50 * unit_roundoff<T>)
        << alone.result.message;
  }
  return alone;
}

template <Scalar T>
Answer<T> solve_everywhere(const System<T>& system, const Options& options, bool jacobi = false) {
  return solve_on_cuts(few_cuts_of(system.n), system, options, jacobi);
}

template <class T>
class KrylovSolve : public ::testing::Test {};
TYPED_TEST_SUITE(KrylovSolve, Dtypes, DtypeNames);

TYPED_TEST(KrylovSolve, Cg_OnAnyCut_HasTheSameBits) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 5, 63, 64, 65, 130, 200}) {
    const Answer<T> answer =
        solve_on_cuts(cuts_for<T>(n), laplacian<T>(n, 2.1), {.rtol = loose_rtol<T>()}, n % 2 == 0);
    EXPECT_EQ(answer.result.status, Status::converged_rtol) << answer.result.message;
    EXPECT_LE(answer.result.iterations, n + 1);
  }
}

TYPED_TEST(KrylovSolve, Minres_OnAnyCut_HasTheSameBits) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 64, 130, 200}) {
    const Answer<T> answer =
        solve_on_cuts(cuts_for<T>(n), laplacian<T>(n, n % 3 == 1 ? 2.1 : 0.63),
                      {.method = Method::minres, .rtol = loose_rtol<T>()}, false);
    EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
  }
}

TYPED_TEST(KrylovSolve, Bicgstab_OnAnyCut_HasTheSameBits) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 64, 130, 200}) {
    const Answer<T> answer =
        solve_on_cuts(cuts_for<T>(n), convection<T>(n),
                      {.method = Method::bicgstab, .rtol = loose_rtol<T>()}, n % 3 == 1);
    EXPECT_EQ(answer.result.status, Status::converged_rtol) << answer.result.message;
  }
}

TYPED_TEST(KrylovSolve, Fgmres_OnAnyCut_HasTheSameBits) {
  using T = TypeParam;
  for (const std::int64_t n : {1, 64, 130, 200}) {
    const Answer<T> answer = solve_on_cuts(
        cuts_for<T>(n), convection<T>(n),
        {.method = Method::fgmres, .rtol = loose_rtol<T>(), .restart = 40}, n % 3 == 1);
    EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
  }
}

Options with(Method method, double rtol, std::int64_t max_iterations = 10000) {
  return {.method = method, .rtol = rtol, .max_iterations = max_iterations};
}
constexpr Method methods[] = {Method::cg, Method::minres, Method::bicgstab, Method::fgmres};

TEST(KrylovVerdict, IdentityOperator_IsSolvedInOneStep) {
  const System<double> system = diagonal_system<double>("identity", std::vector<double>(70, 1.0));
  for (const Method method : methods) {
    const Answer<double> answer = solve_everywhere(system, with(method, 1e-14));
    EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
    EXPECT_EQ(answer.result.iterations, 1) << name(method);
    for (std::size_t i = 0; i < answer.x.size(); ++i) {
      EXPECT_NEAR(answer.x[i], system.b[i], 1e-15);
    }
  }
}

TEST(KrylovVerdict, ZeroRightHandSide_IsSolvedByZero) {
  System<double> system = laplacian<double>(20);
  system.b.assign(20, 0.0);
  system.guess = std::vector<double>(20, 3.0);
  for (const Method method : methods) {
    const Answer<double> answer = solve_everywhere(system, with(method, 1e-10));
    EXPECT_EQ(answer.result.status, Status::zero_rhs);
    EXPECT_EQ(answer.x, std::vector<double>(20, 0.0));
    EXPECT_EQ(answer.result.matvecs, 0);
  }
}

TEST(KrylovVerdict, ExactGuess_IsKept) {
  System<double> system = laplacian<double>(20);
  system.guess = solve_alone(system, with(Method::cg, 1e-13)).x;
  for (const Method method : methods) {
    const Answer<double> answer = solve_everywhere(system, with(method, 1e-10));
    EXPECT_EQ(answer.result.status, Status::converged_at_start) << answer.result.message;
    EXPECT_EQ(answer.x, *system.guess);
    EXPECT_EQ(answer.result.iterations, 0);
  }
}

TEST(KrylovVerdict, ZerosInTheRightHandSide_DoNotMatterWithoutAtol) {
  System<double> system = laplacian<double>(40, 2.5);
  for (std::size_t i = 0; i < 40; i += 3) {
    system.b[i] = 0.0;
  }
  for (const Method method : methods) {
    const Answer<double> answer = solve_everywhere(system, with(method, 1e-12));
    EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
  }
}

TEST(KrylovVerdict, NanInTheOperator_IsNamed) {
  System<double> system = laplacian<double>(70);
  system.a[65 * 70 + 65] = std::numeric_limits<double>::quiet_NaN();
  for (const Method method : methods) {
    const Answer<double> answer = solve_everywhere(system, with(method, 1e-10));
    EXPECT_EQ(answer.result.status, Status::nonfinite_operator) << answer.result.message;
    EXPECT_EQ(answer.result.outcome.status, shardsolve::Status::nonfinite_product);
  }
}

TEST(KrylovVerdict, NanInVectors_IsNamedWithItsRow) {
  System<double> system = laplacian<double>(70);
  system.b[66] = std::numeric_limits<double>::infinity();
  Answer<double> answer = solve_everywhere(system, with(Method::cg, 1e-10));
  EXPECT_EQ(answer.result.status, Status::nonfinite_rhs);
  EXPECT_TRUE(std::isinf(answer.result.residual));
  EXPECT_THAT(answer.result.message, HasSubstr("row 66"));
  system.b[66] = 1.0;
  system.guess = std::vector<double>(70, 1.0);
  (*system.guess)[3] = std::numeric_limits<double>::quiet_NaN();
  answer = solve_everywhere(system, with(Method::bicgstab, 1e-10));
  EXPECT_EQ(answer.result.status, Status::nonfinite_guess);
  EXPECT_EQ(answer.result.residual, 1.0);  // of x = 0
  EXPECT_THAT(answer.result.message, HasSubstr("row 3"));
}

TEST(KrylovVerdict, ZeroOnTheDiagonalOfJacobi_IsNamed) {
  const System<double> system = diagonal_system<double>("zero", {1, 2, 0, 4});
  for (const Method method : methods) {
    const Answer<double> answer = solve_everywhere(system, with(method, 1e-10), true);
    EXPECT_EQ(answer.result.status, Status::nonfinite_preconditioner) << answer.result.message;
  }
}

TEST(KrylovVerdict, CgOnAnIndefiniteOperator_SaysSo) {
  std::vector<double> d(30, 1.0);
  for (std::size_t i = 0; i < 30; ++i) {
    d[i] = i % 7 == 3 ? -1.0 - 0.01 * static_cast<double>(i) : 1.0 + 0.1 * static_cast<double>(i);
  }
  const System<double> system = diagonal_system<double>("indefinite", d);
  const Answer<double> answer = solve_everywhere(system, with(Method::cg, 1e-10));
  EXPECT_EQ(answer.result.status, Status::indefinite_operator) << answer.result.message;
  EXPECT_THAT(answer.result.message, HasSubstr("minres"));
  EXPECT_EQ(solve_everywhere(system, with(Method::minres, 1e-10)).result.status,
            Status::converged_rtol);
}

TEST(KrylovVerdict, IndefinitePreconditioner_IsNamed) {
  const System<double> system = laplacian<double>(40, 2.5);
  std::vector<double> d(40, -1.0);
  d[3] = 2.0;
  const Operator<double> m = operator_of(diagonal_system<double>("negative", d));
  for (const Method method : {Method::cg, Method::minres}) {
    const Answer<double> answer = solve_on(mesh_of(2), SlabLayout::even(40, 2, 1), system,
                                           operator_of(system), &m, with(method, 1e-10));
    EXPECT_EQ(answer.result.status, Status::indefinite_preconditioner) << answer.result.message;
    EXPECT_TRUE(all_finite(answer.x));
  }
}

TEST(KrylovVerdict, NonsymmetricOperator_IsRefusedByCgAndMinres) {
  const System<double> system = convection<double>(50);
  for (const Method method : {Method::cg, Method::minres}) {
    const Answer<double> answer = solve_everywhere(system, with(method, 1e-10));
    EXPECT_EQ(answer.result.status, Status::nonsymmetric_operator) << answer.result.message;
    EXPECT_THAT(answer.result.message, HasSubstr("bicgstab"));
  }
  System<double> m = laplacian<double>(50, 2.5);
  const Operator<double> preconditioner = operator_of(system);
  EXPECT_EQ(solve_on(mesh_of(2), SlabLayout::even(50, 2, 1), m, operator_of(m), &preconditioner,
                     with(Method::cg, 1e-10))
                .result.status,
            Status::nonsymmetric_preconditioner);
}

TEST(KrylovVerdict, RightHandSideScaledByPowersOfTen_ChangesNoVerdict) {
  for (const Method method : methods) {
    const System<double> plain = method == Method::cg || method == Method::minres
                                     ? laplacian<double>(90, 2.05)
                                     : convection<double>(90);
    const Answer<double> reference = solve_alone(plain, with(method, 1e-9));
    ASSERT_TRUE(krylov::is_converged(reference.result.status)) << reference.result.message;
    for (const double factor : {1e-300, 1e-4, 1e8, 1e300}) {
      System<double> system = plain;
      for (double& b : system.b) {
        b *= factor;
      }
      const Answer<double> answer = solve_alone(system, with(method, 1e-9));
      EXPECT_EQ(answer.result.status, reference.result.status) << answer.result.message;
      EXPECT_TRUE(all_finite(answer.x));
      EXPECT_NEAR(static_cast<double>(answer.result.iterations),
                  static_cast<double>(reference.result.iterations),
                  2.0 + 0.05 * static_cast<double>(reference.result.iterations));
    }
  }
}

TEST(KrylovVerdict, ScalingByPowersOfTwo_ChangesNoBit) {
  struct Scaling {
    int a, b, m;
  };
  for (const Method method : methods) {
    const System<double> plain = method == Method::cg || method == Method::minres
                                     ? laplacian<double>(90, 2.05)
                                     : convection<double>(90);
    const Operator<double> m = jacobi_of(plain);
    const SlabLayout layout = SlabLayout::even(90, 1, 1);
    const Answer<double> reference =
        solve_on(mesh_of(1), layout, plain, operator_of(plain), &m, with(method, 1e-9));
    for (const Scaling by : {Scaling{0, -900, 0}, Scaling{0, 900, 0}, Scaling{100, 3, 0},
                             Scaling{-120, 0, 0}, Scaling{0, 0, 60}, Scaling{0, 0, -60},
                             Scaling{511, 0, 0}, Scaling{-660, 0, 0}, Scaling{511, 0, -510}}) {
      System<double> system = plain;
      System<double> scaled_m = plain;
      for (std::size_t i = 0; i < system.a.size(); ++i) {
        system.a[i] = std::ldexp(system.a[i], by.a);
        scaled_m.a[i] = std::ldexp(scaled_m.a[i], -by.m);
      }
      for (double& b : system.b) {
        b = std::ldexp(b, by.b);
      }
      const Operator<double> other_m = jacobi_of(scaled_m);
      const Answer<double> answer =
          solve_on(mesh_of(1), layout, system, operator_of(system), &other_m, with(method, 1e-9));
      EXPECT_EQ(answer.result.status, reference.result.status) << answer.result.message;
      ASSERT_EQ(answer.result.log.size(), reference.result.log.size());
      for (std::size_t i = 0; i < answer.result.log.size(); ++i) {
        EXPECT_EQ(answer.result.log[i].residual, reference.result.log[i].residual);
      }
      for (std::size_t i = 0; i < answer.x.size(); ++i) {
        EXPECT_EQ(answer.x[i], std::ldexp(reference.x[i], by.b - by.a)) << name(method);
      }
    }
  }
}

TEST(KrylovVerdict, ExchangeMatrix_IsNoSurprise) {
  System<double> system = make_system<double>(
      "exchange", 2, [](std::int64_t i, std::int64_t j) { return i != j ? 1.0 : 0.0; });
  system.b = {1.0, 0.0};
  EXPECT_EQ(solve_everywhere(system, with(Method::cg, 1e-10)).result.status,
            Status::indefinite_operator);
  for (const Method method : {Method::minres, Method::bicgstab, Method::fgmres}) {
    const Answer<double> answer = solve_everywhere(system, with(method, 1e-10));
    EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
  }
}

/// Matrices that make <r^, v> or <t, s> exactly 0.
TEST(KrylovVerdict, ExactBreakdowns_EndWithAReasonOrAnAnswer) {
  const auto skew = make_system<double>("skew", 40, [](std::int64_t i, std::int64_t j) {
    return i - j == 1 ? 1.0 : j - i == 1 ? -1.0 : 0.0;
  });
  const auto shift = make_system<double>(
      "shift", 40, [](std::int64_t i, std::int64_t j) { return (i + 1) % 40 == j ? 1.0 : 0.0; });
  auto shifted = shift;
  shifted.b.assign(40, 0.0);
  shifted.b[0] = 1.0;
  for (const auto& system : {skew, shift, shifted}) {
    const Answer<double> answer = solve_everywhere(system, with(Method::bicgstab, 1e-10, 400));
    const Status status = answer.result.status;
    EXPECT_TRUE(krylov::is_converged(status) || status == Status::breakdown_rho ||
                status == Status::breakdown_sigma || status == Status::breakdown_omega)
        << answer.result.message;
    Options full = with(Method::fgmres, 1e-10);
    full.restart = 40;
    const Answer<double> other = solve_everywhere(system, full);
    EXPECT_TRUE(krylov::is_converged(other.result.status)) << other.result.message;
  }
}

/// The Laplacian with free ends: constants are its kernel.
System<double> free_ends(bool consistent) {
  System<double> system = laplacian<double>(50);
  system.a.front() = 1.0;
  system.a.back() = 1.0;
  double mean = 0.0;
  for (const double b : system.b) {
    mean += b / 50;
  }
  for (double& b : system.b) {
    b -= consistent ? mean : 0.0;
  }
  return system;
}

TEST(KrylovVerdict, SingularConsistent_IsSolved) {
  const System<double> system = free_ends(true);
  for (const Method method : methods) {
    Options options = with(method, 1e-9);
    options.restart = 50;
    const Answer<double> answer = solve_everywhere(system, options);
    EXPECT_TRUE(krylov::is_converged(answer.result.status))
        << name(method) << " " << answer.result.message;
  }
}

TEST(KrylovVerdict, SingularInconsistent_IsNotSolved) {
  const System<double> system = free_ends(false);
  for (const Method method : methods) {
    const Answer<double> answer = solve_alone(system, with(method, 1e-9, 300));
    EXPECT_TRUE(same_bits(solve_on(mesh_of(3), SlabLayout({0, 20, 20, 50}, 1), system,
                                   operator_of(system), nullptr, with(method, 1e-9, 300)),
                          answer));
    EXPECT_FALSE(krylov::is_converged(answer.result.status));
    EXPECT_TRUE(answer.result.status != Status::running);
    EXPECT_LE(answer.result.residual, 1.0 + 1e-12) << name(method) << answer.result.message;
    EXPECT_LE(answer.result.iterations, 300);
  }
}

TEST(KrylovVerdict, ToleranceBelowRounding_IsTheAccuracyLimit) {
  const System<double> system = laplacian<double>(60);
  for (const Method method : methods) {
    const Answer<double> answer = solve_alone(system, with(method, 1e-17, 3000));
    EXPECT_EQ(answer.result.status, Status::accuracy_limit)
        << name(method) << answer.result.message;
    EXPECT_LT(answer.result.residual, 1e-12);
    EXPECT_THAT(answer.result.message, HasSubstr("attainable"));
  }
}

TEST(KrylovVerdict, MaxIterations_GivesTheBestIterate) {
  for (const Method method : methods) {
    const Answer<double> answer = solve_everywhere(
        method == Method::bicgstab ? convection<double>(120) : laplacian<double>(120),
        with(method, 1e-12, 17));
    EXPECT_EQ(answer.result.status, Status::max_iterations) << answer.result.message;
    EXPECT_EQ(answer.result.iterations, 17);
    EXPECT_THAT(answer.result.message, HasSubstr("17"));
  }
}

TEST(KrylovVerdict, NanInTheSeventeenthIteration_IsNamedAndXIsFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Method method : methods) {
    const System<double> system =
        method == Method::bicgstab ? convection<double>(120) : laplacian<double>(120);
    const bool probes = method == Method::cg || method == Method::minres;
    const std::int64_t product = method == Method::bicgstab ? 1 + 2 * 16 + 1
                                 : probes                   ? 2 + 1 + 17
                                                            : 1 + 17;
    Options options = with(method, 1e-12);
    std::optional<Answer<double>> alone;
    for (const SlabLayout& layout : few_cuts_of(system.n)) {
      const Operator<double> a = disturbed(system, layout.ranks(), product, nan);
      const Answer<double> answer =
          solve_on(mesh_of(layout.ranks()), layout, system, a, nullptr, options);
      EXPECT_EQ(answer.result.status, Status::nonfinite_operator) << answer.result.message;
      EXPECT_THAT(answer.result.message, HasSubstr("at iteration 17,")) << name(method);
      EXPECT_TRUE(all_finite(answer.x));
      EXPECT_LE(true_residual(system, answer.x), 1.0);
      if (!alone) {
        alone = answer;
      }
      EXPECT_TRUE(same_bits(answer, *alone));
    }
  }
}

TEST(KrylovVerdict, NanOfThePreconditionerInTheSeventeenthIteration_IsNamedAndXIsFinite) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const System<double> ones = diagonal_system<double>("ones", std::vector<double>(120, 1.0));
  for (const Method method : methods) {
    const System<double> system =
        method == Method::bicgstab ? convection<double>(120) : laplacian<double>(120);
    // The product that is made of the 17th iterate's residual; of bicgstab and fgmres the one that
    // the 17th iteration begins with.
    const std::int64_t product = method == Method::bicgstab ? 2 * 16 + 1
                                 : method == Method::fgmres ? 17
                                                            : 2 + 1 + 17;
    std::optional<Answer<double>> alone;
    for (const SlabLayout& layout : few_cuts_of(system.n)) {
      const Operator<double> m = disturbed(ones, layout.ranks(), product, nan);
      const Answer<double> answer = solve_on(mesh_of(layout.ranks()), layout, system,
                                             operator_of(system), &m, with(method, 1e-12));
      EXPECT_EQ(answer.result.status, Status::nonfinite_preconditioner) << answer.result.message;
      EXPECT_THAT(answer.result.message, HasSubstr("at iteration 17,")) << name(method);
      EXPECT_TRUE(all_finite(answer.x));
      EXPECT_LE(true_residual(system, answer.x), 1.0);
      if (!alone) {
        alone = answer;
      }
      EXPECT_TRUE(same_bits(answer, *alone));
    }
  }
}

TEST(KrylovVerdict, NanThatComesIntoBWhileItIsSolved_ChangesNothing) {
  const System<double> system = laplacian<double>(120);
  const SlabLayout layout = SlabLayout::even(120, 1, 1);
  const Answer<double> expected = solve_alone(system, with(Method::cg, 1e-10));
  const RightHandSides<double> b(layout, 1);
  const RightHandSides<double> x(layout, 1);
  std::copy(system.b.begin(), system.b.end(), b.block(0).data());
  const auto shared = std::make_shared<std::int64_t>(0);
  const auto a = Operator<double>::callable(
      [&system, b, shared](const double* from, GlobalRange rows, double* to) {
        if (++*shared == 2 + 1 + 17) {
          b.block(0)(60, 0) = std::numeric_limits<double>::quiet_NaN();
        }
        for (std::int64_t i = rows.begin.value(); i < rows.end.value(); ++i) {
          double sum = 0.0;
          for (std::int64_t j = 0; j < 120; ++j) {
            if (system.entry(i, j) != 0.0) {
              sum += system.entry(i, j) * from[j];
            }
          }
          *to++ = sum;
        }
      });
  const krylov::Result result = krylov::solve(mesh_of(1), a, b, x, with(Method::cg, 1e-10));
  EXPECT_EQ(result.message, expected.result.message);
  EXPECT_TRUE(std::equal(expected.x.begin(), expected.x.end(), x.block(0).data()));
}

TEST(KrylovVerdict, Cancelled_IsAStatusOnAllRanks) {
  const System<double> system = laplacian<double>(400);
  for (const Method method : methods) {
    std::stop_source source;
    source.request_stop();
    RunOptions run;
    run.cancel = source.get_token();
    const Answer<double> answer = solve_on(mesh_of(3), SlabLayout::even(400, 3, 1), system,
                                           operator_of(system), nullptr, with(method, 1e-12), run);
    EXPECT_EQ(answer.result.status, Status::cancelled) << answer.result.message;
    EXPECT_TRUE(all_finite(answer.x));
  }
}

TEST(KrylovVerdict, RandomSystems_AreSolvedTruly) {
  for (std::int64_t seed = 0; seed < 40; ++seed) {
    const System<double> system = random_system<double>(20 + 3 * seed, seed);
    for (const Method method : {Method::bicgstab, Method::fgmres}) {
      const Answer<double> answer = solve_alone(system, with(method, 1e-11));
      EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
      EXPECT_LE(true_residual(system, answer.x), 1.01e-11);
    }
  }
}

TEST(KrylovVerdict, SolutionBelowTheRange_IsAnOverflow) {
  System<double> system = diagonal_system<double>("large", std::vector<double>(20, 1e200));
  for (double& b : system.b) {
    b *= 1e-115;
  }
  for (const Method method : {Method::cg, Method::bicgstab}) {
    const Answer<double> answer = solve_everywhere(system, with(method, 1e-10));
    EXPECT_EQ(answer.result.status, Status::overflow) << answer.result.message;
    EXPECT_EQ(answer.x, std::vector<double>(20, 0.0));
  }
}

// Its largest part is in range, but what another one loses is as large as b once A is applied. With
// this preconditioner products of A with vectors of the method do not say how large A is.
TEST(KrylovVerdict, SolutionWithAPartBelowTheRange_IsAnOverflow) {
  std::vector<double> d(20, 1e-100);
  d.back() = 1e100;
  System<double> system = diagonal_system<double>("both", d);
  system.b.assign(20, 1e-250);
  for (const Method method : {Method::cg, Method::bicgstab, Method::fgmres}) {
    const Answer<double> answer = solve_alone(system, with(method, 1e-10), true);
    EXPECT_EQ(answer.result.status, Status::overflow) << answer.result.message;
    EXPECT_EQ(answer.x, std::vector<double>(20, 0.0));
  }
}

TEST(KrylovVerdict, GuessThatNobodyLookedAt_IsNotReturned) {
  System<double> system = random_system<double>(20, 1);
  for (const bool has_guess : {false, true}) {
    if (has_guess) {
      system.guess = std::vector<double>(20, 3.0);
    }
    const Answer<double> answer = solve_everywhere(system, with(Method::cg, 1e-10));
    EXPECT_EQ(answer.result.status, Status::nonsymmetric_operator) << answer.result.message;
    EXPECT_EQ(answer.x, std::vector<double>(20, 0.0));
    EXPECT_EQ(answer.result.residual, 1.0);
  }
}

// What the small parts lose does not count beside b: of cg's A, whose size random vectors tell,
// much smaller x are known to be right.
TEST(KrylovVerdict, SolutionWithAPartThatIsAllButZero_IsGiven) {
  System<double> system = diagonal_system<double>("thirds", std::vector<double>(20, 3.0));
  for (const auto& [method, size] : {std::pair{Method::cg, 1e-290},
                                     {Method::minres, 1e-290},
                                     {Method::bicgstab, 1e-120},
                                     {Method::fgmres, 1e-120}}) {
    system.b.assign(20, size);
    system.b.back() = 1.23e-310;
    const Answer<double> answer = solve_everywhere(system, with(method, 1e-10));
    EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
    for (std::size_t i = 0; i < answer.x.size(); ++i) {
      EXPECT_NEAR(answer.x[i], system.b[i] / 3, 1e-10 * size);
    }
    EXPECT_GT(answer.x.back(), 0.0);
  }
}

TEST(KrylovVerdict, SolutionOutOfRange_IsAnOverflow) {
  System<double> system = diagonal_system<double>("tiny", std::vector<double>(20, 1e-200));
  for (double& b : system.b) {
    b *= 1e200;
  }
  for (const Method method : {Method::cg, Method::bicgstab}) {
    const Answer<double> answer = solve_everywhere(system, with(method, 1e-10));
    EXPECT_EQ(answer.result.status, Status::overflow) << answer.result.message;
    EXPECT_EQ(answer.result.outcome.status, shardsolve::Status::overflow);
    EXPECT_EQ(answer.x, std::vector<double>(20, 0.0));
  }
}

template <Scalar T>
Operator<T> block_jacobi_of(const System<T>& system, std::vector<std::int64_t> blocks) {
  const auto shared = std::make_shared<const System<T>>(system);
  return Operator<T>::block_jacobi(
      std::move(blocks), [shared](GlobalRange rows, MatrixView<T> block) {
        for (std::int64_t j = 0; j < rows.size(); ++j) {
          for (std::int64_t i = 0; i < rows.size(); ++i) {
            block(i, j) = shared->entry(rows.begin.value() + i, rows.begin.value() + j);
          }
        }
      });
}

template <class T>
class KrylovPreconditioner : public ::testing::Test {};
TYPED_TEST_SUITE(KrylovPreconditioner, Dtypes, DtypeNames);

TYPED_TEST(KrylovPreconditioner, BlockJacobi_OnAnyCut_HasTheSameBitsAndIsExact) {
  using T = TypeParam;
  const auto check = [](const System<T>& system, Method method,
                        const std::vector<std::int64_t>& blocks, std::int64_t most) {
    const Operator<T> a = operator_of(system);
    const Operator<T> m = block_jacobi_of(system, blocks);
    const Options options = with(method, loose_rtol<T>());
    const SlabLayout one = SlabLayout::even(system.n, 1, 1);
    const Answer<T> alone = solve_on(mesh_of(1), one, system, a, &m, options);
    EXPECT_TRUE(krylov::is_converged(alone.result.status)) << alone.result.message;
    EXPECT_LE(alone.result.iterations, most);
    EXPECT_LE(true_residual(system, alone.x),
              1.1 * options.rtol.value_or(krylov::default_rtol(dtype_of<T>)));
    for (const SlabLayout& layout : cuts_for<T>(system.n)) {
      EXPECT_TRUE(
          same_bits(solve_on(mesh_of(layout.ranks()), layout, system, a, &m, options), alone));
    }
  };
  check(laplacian<T>(100), Method::cg, {0, 100}, 2);
  check(laplacian<T>(100), Method::cg, {0, 20, 50, 51, 100}, 12);
  check(laplacian<T>(90), Method::minres, {0, 30, 60, 90}, 12);
  check(convection<T>(100), Method::bicgstab, {0, 100}, 2);
  check(convection<T>(100), Method::fgmres, {0, 20, 50, 51, 100}, 30);
  check(random_system<T>(70, 3), Method::bicgstab, {0, 70}, 2);
}

TYPED_TEST(KrylovPreconditioner, Chebyshev_OnAnyCut_HasTheSameBitsAndHelps) {
  using T = TypeParam;
  const System<T> system = laplacian<T>(100, 2.01);
  const Operator<T> a = operator_of(system);
  const Operator<T> m = Operator<T>::chebyshev(a, 0.1, 4.02, 6);
  const Options options = with(Method::cg, loose_rtol<T>());
  const Answer<T> alone = solve_on(mesh_of(1), SlabLayout::even(100, 1, 1), system, a, &m, options);
  EXPECT_TRUE(krylov::is_converged(alone.result.status)) << alone.result.message;
  EXPECT_LT(2 * alone.result.iterations, solve_alone(system, options).result.iterations);
  for (const SlabLayout& layout : cuts_for<T>(system.n)) {
    EXPECT_TRUE(
        same_bits(solve_on(mesh_of(layout.ranks()), layout, system, a, &m, options), alone));
  }
}

TEST(KrylovBlockJacobi, SingularBlock_IsNamed) {
  System<double> system = laplacian<double>(40, 2.5);
  const Operator<double> a = operator_of(system);
  for (std::size_t j = 0; j < 40; ++j) {
    system.a[17 * 40 + j] = 0.0;
  }
  const Operator<double> m = block_jacobi_of(system, {0, 10, 40});
  EXPECT_EQ(
      solve_on(mesh_of(2), SlabLayout::even(40, 2, 1), system, a, &m, with(Method::bicgstab, 1e-10))
          .result.status,
      Status::nonfinite_preconditioner);
}

// Misuse.

TEST(KrylovMisuse, CallableThatThrows_EndsTheCallOnAllRanks) {
  const System<double> system = laplacian<double>(30);
  const Operator<double> a =
      Operator<double>::callable([](const double*, GlobalRange rows, double*) {
        if (rows.begin.value() > 0) {
          throw std::runtime_error("no product today");
        }
      });
  const SlabLayout layout = SlabLayout::even(30, 3, 1);
  EXPECT_ANY_THROW(solve_on(mesh_of(3), layout, system, a, nullptr, with(Method::cg, 1e-10)));
  EXPECT_TRUE(krylov::is_converged(
      solve_on(mesh_of(3), layout, system, operator_of(system), nullptr, with(Method::cg, 1e-10))
          .result.status));
}

// What scripts/prove_waits.py runs.
TEST(KrylovWaits, WithAllWaits_AreRight) {
  const System<double> system = laplacian<double>(90, 2.2);
  const Answer<double> alone = solve_alone(system, with(Method::cg, 1e-10));
  for (const std::int64_t ranks : {2, 4}) {
    Mesh mesh = Mesh::host(ranks);
    EXPECT_TRUE(same_bits(solve_on(mesh, SlabLayout::even(90, ranks, 1), system,
                                   operator_of(system), nullptr, with(Method::cg, 1e-10)),
                          alone));
  }
}

}  // namespace
}  // namespace shardsolve::testing::krylov_problems
