// What rounding does to small ill-conditioned systems: Hermitian ones are called nothing else.

#include "support/dtypes.hpp"
#include "support/krylov_sparse.hpp"
#include "support/krylov_tiny.hpp"

#include <shardsolve/krylov.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

namespace shardsolve::testing::krylov_problems {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Status;
using ::testing::AllOf;
using ::testing::HasSubstr;

bool blames_the_system(Status status) {
  return status == Status::nonsymmetric_operator || status == Status::nonsymmetric_preconditioner ||
         status == Status::indefinite_operator || status == Status::indefinite_preconditioner ||
         status == Status::singular_operator;
}

TEST(KrylovRounding, HermitianOfCondition2e6_IsSolved) {
  using T = std::complex<double>;
  const double off = 1 - 1e-6;
  const System<T> system{"two", 2, {1, T(0, off), T(0, -off), 1}, {1, 1}};
  for (const Method method : {Method::cg, Method::minres}) {
    const Answer<T> answer = solve_on(cpu_rank(), row_slabs(2, 1), system, operator_of(system),
                                      nullptr, {.method = method, .rtol = 1e-9});
    EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
    EXPECT_LE(std::abs(answer.x[0] - T(500000.25, -499999.75)), 1e-3);
    EXPECT_LE(std::abs(answer.x[1] - T(500000.25, 499999.75)), 1e-3);
  }
}

template <class T>
class KrylovRoundingOf : public ::testing::Test {};
TYPED_TEST_SUITE(KrylovRoundingOf, Dtypes, DtypeNames);

TYPED_TEST(KrylovRoundingOf, DefiniteMatrices_AreNotBlamed) {
  using T = TypeParam;
  const double digits = std::numeric_limits<RealOf<T>>::digits10;
  for (std::int64_t seed = 0; seed < 60; ++seed) {
    const std::int64_t n = 2 + seed % 7;
    const double decades = (digits - 1.5) * static_cast<double>(seed % 30) / 29.0;
    const System<T> system = tiny_system<T>(n, decades, seed, true);
    const System<T> plain = laplacian<T>(n, 2.5);
    const Operator<T> m = operator_of(system);
    for (const Method method : {Method::cg, Method::minres}) {
      const Options options{
          .method = method, .rtol = 100 * unit_roundoff<T>, .max_iterations = 300};
      const auto alone =
          solve_on(cpu_rank(), row_slabs(n, 1), system, operator_of(system), nullptr, options);
      EXPECT_FALSE(blames_the_system(alone.result.status)) << seed << alone.result.message;
      const auto as_m =
          solve_on(cpu_rank(), row_slabs(n, 1), plain, operator_of(plain), &m, options);
      EXPECT_FALSE(blames_the_system(as_m.result.status)) << seed << as_m.result.message;
    }
  }
}

TYPED_TEST(KrylovRoundingOf, IndefiniteMatrices_StillAre) {
  using T = TypeParam;
  for (std::int64_t seed = 0; seed < 20; ++seed) {
    const std::int64_t n = 3 + seed % 5;
    System<T> system = tiny_system<T>(n, 1.0, seed, true);
    for (std::int64_t i = 0; i < n; ++i) {
      system.a[static_cast<std::size_t>(i * n + i)] -= RealOf<T>(0.5);
    }
    const auto answer = solve_on(cpu_rank(), row_slabs(n, 1), system, operator_of(system), nullptr,
                                 {.method = Method::cg, .rtol = 1e5 * unit_roundoff<T>});
    EXPECT_TRUE(answer.result.status == Status::indefinite_operator ||
                krylov::is_converged(answer.result.status))
        << answer.result.message;
  }
}

/// Tolerances from what every system attains to what none does.
template <Scalar T>
void expect_true_verdicts(bool sparse) {
  constexpr Method methods[] = {Method::cg, Method::minres, Method::bicgstab, Method::fgmres};
  const double digits = std::numeric_limits<RealOf<T>>::digits10;
  std::int64_t converged = 0;
  std::int64_t solves = 0;
  for (std::int64_t seed = 0; seed < 60; ++seed) {
    const std::int64_t n = 2 + seed % 9;
    const double decades = digits * static_cast<double>(seed % 30) / 29.0;
    for (const Method method : methods) {
      const bool hermitian = method == Method::cg || method == Method::minres;
      System<T> system = tiny_system<T>(n, decades, seed, hermitian);
      for (const double rtol : {3.0, 1e3, 1e6}) {
        if (rtol == 1e6 && seed % 2 == 0) {  // from where another solve ended
          system.guess = system.b;
        }
        const double asked = rtol * unit_roundoff<T>;
        const Options options{.method = method, .rtol = asked, .max_iterations = 200};
        const auto answer = sparse ? solve_sparse_on(cpu_rank(), row_slabs(n, 1), system,
                                                     csr_of(system), nullptr, options)
                                   : solve_on(cpu_rank(), row_slabs(n, 1), system,
                                              operator_of(system), nullptr, options);
        ++solves;
        if (krylov::is_converged(answer.result.status)) {
          ++converged;
          EXPECT_LE(twofold_residual_of(system, answer.x), asked)
              << "system " << seed << ": " << answer.result.message;
        } else if (sparse && answer.result.residual < 0.9 * asked) {
          // No more is held back than rounding of b.
          EXPECT_LE(asked, 1.2 * answer.result.residual + 4 * unit_roundoff<T>)
              << "system " << seed << ": " << answer.result.message;
        }
      }
    }
  }
  EXPECT_GE(5 * converged, solves);
}

TYPED_TEST(KrylovRoundingOf, ConvergedSparseSystems_AreBelowTheTolerance) {
  expect_true_verdicts<TypeParam>(true);
}

TYPED_TEST(KrylovRoundingOf, ConvergedCallables_AreBelowTheTolerance) {
  expect_true_verdicts<TypeParam>(false);
}

/// x is right to the last bit and b - A x is 0 as computed: whether that is within u / 4 nobody
/// knows, and there is no direction to go on in.
TYPED_TEST(KrylovRoundingOf, ZeroResidualBeyondTheDtype_IsTheAccuracyLimit) {
  using T = TypeParam;
  const System<T> system = diagonal_system<T>("thirds", {3, 1.0 / 3, 7, 0.1, 5});
  for (const Method method : {Method::cg, Method::minres, Method::bicgstab, Method::fgmres}) {
    const auto answer =
        solve_sparse_on(cpu_rank(), row_slabs(5, 1), system, csr_of(system), nullptr,
                        {.method = method, .rtol = unit_roundoff<T> / 4, .max_iterations = 300});
    EXPECT_EQ(answer.result.status, Status::accuracy_limit) << answer.result.message;
    EXPECT_LE(answer.result.residual, 2 * unit_roundoff<T>);
    if (answer.result.residual <= answer.result.tolerance) {
      EXPECT_THAT(answer.result.message,
                  AllOf(HasSubstr("as computed"), HasSubstr("rounding in that may hide up to")));
    }
  }
}

/// ||A|| ||x|| is decades more than what is summed in any row, so it is no reason to doubt a
/// residual.
TYPED_TEST(KrylovRoundingOf, RowsOfVerySmallEntries_AreSolvedToTheTolerance) {
  using T = TypeParam;
  const bool is_single = unit_roundoff<T> > 1e-10;
  const double rtol = krylov::default_rtol(dtype_of<T>);
  for (const double decades : is_single ? std::vector{10.0, 12.0} : std::vector{20.0, 25.0}) {
    std::vector<double> d;
    for (std::int64_t i = 0; i < 40; ++i) {
      d.push_back(std::pow(10.0, -decades * static_cast<double>(i) / 39.0));
    }
    const System<T> system = diagonal_system<T>("graded", d);
    const Options options{.method = Method::cg};
    const MakeOperator<T> jacobi = [a = csr_of(system)](Mesh&, const SlabLayout&) {
      return Operator<T>::jacobi(a);
    };
    const auto answer = solve_sparse_everywhere(system, options, jacobi);
    EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
    EXPECT_LE(twofold_residual_of(system, answer.x), rtol);
    EXPECT_LE(answer.result.iterations, 3) << answer.result.message;
    if (is_single) {
      continue;  // a guess so much larger than b is left out
    }
    // The guess is such an x.
    System<T> solved = system;
    solved.guess = answer.x;
    Options again = options;
    again.use_guess = true;
    const auto at_start = solve_sparse_everywhere(solved, again, jacobi);
    EXPECT_EQ(at_start.result.status, Status::converged_at_start) << at_start.result.message;
  }
}

/// What a product of somebody else's may hide is more than was asked for: no iteration helps.
TEST(KrylovRounding, CallableWhoseRoundingHidesTheResidual_EndsAtOnceAndSaysSo) {
  std::vector<double> d;
  for (std::int64_t i = 0; i < 40; ++i) {
    d.push_back(std::pow(10.0, -12.0 * static_cast<double>(i) / 39.0));
  }
  const System<double> system = diagonal_system<double>("graded", d);
  const auto answer = solve_on(cpu_rank(), row_slabs(40, 1), system, operator_of(system), nullptr,
                               {.method = Method::cg});
  EXPECT_EQ(answer.result.status, Status::accuracy_limit) << answer.result.message;
  EXPECT_LE(answer.result.residual, 1e-8);
  EXPECT_LT(answer.result.iterations, 5000);
  EXPECT_THAT(answer.result.message,
              AllOf(HasSubstr("rounding in that may hide up to"), HasSubstr("or a sparse matrix")));
}

}  // namespace
}  // namespace shardsolve::testing::krylov_problems
