// Singular systems: what is said of them, on any number of ranks; and how good x is, not only its
// residual.

#include "support/dtypes.hpp"
#include "support/krylov_sparse.hpp"

#include <shardsolve/diagnose.hpp>
#include <shardsolve/krylov.hpp>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing::krylov_problems {
namespace {

using krylov::Definiteness;
using krylov::Method;
using krylov::Options;
using krylov::Result;
using krylov::Status;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::array all_methods{Method::cg, Method::minres, Method::bicgstab, Method::fgmres};

/// -u'' on a square of edge^2 points with nothing prescribed at the edges, and wind if it is asked
/// for. Constants are in the null space; without wind b has a solution if its sum is 0.
template <Scalar T>
System<T> free_square(std::int64_t edge, double wind = 0.0) {
  return make_system<T>("free square", edge * edge, [=](std::int64_t i, std::int64_t j) -> T {
    const auto weight = [=](std::int64_t to) {  // of the link from i
      const std::int64_t row = to / edge - i / edge;
      const std::int64_t column = to % edge - i % edge;
      return row * row + column * column != 1 ? 0.0
             : row == 0                       ? 1.0 - static_cast<double>(column) * wind
                                              : 1.0;
    };
    double entry = -weight(j);
    if (i == j) {
      for (const std::int64_t to : {i - edge, i - 1, i + 1, i + edge}) {
        entry += to >= 0 && to < edge * edge ? weight(to) : 0.0;
      }
    }
    return static_cast<T>(static_cast<RealOf<T>>(entry));
  });
}

/// S A S: the null vector is S^-1 times that of A.
template <Scalar T>
System<T> weighted(System<T> system, double decades) {
  const auto weight = [&](std::int64_t i) {
    return static_cast<RealOf<T>>(std::pow(10.0, 0.5 * decades * random_number(41, i)));
  };
  for (std::int64_t i = 0; i < system.n; ++i) {
    for (std::int64_t j = 0; j < system.n; ++j) {
      system.a[static_cast<std::size_t>(i * system.n + j)] *= weight(i) * weight(j);
    }
  }
  system.name = "weighted";
  return system;
}

template <Scalar T>
System<T> with_mean_zero(System<T> system) {
  T sum{};
  for (const T& value : system.b) {
    sum += value;
  }
  for (T& value : system.b) {
    value -= sum / static_cast<RealOf<T>>(system.n);
  }
  return system;
}

/// |<d, b>| / (||d|| ||b||).
template <Scalar T>
double share_of(const System<T>& system, const std::vector<T>& d) {
  T product{};
  double d_squared = 0.0;
  double b_squared = 0.0;
  for (std::size_t i = 0; i < d.size(); ++i) {
    product += d[i] * system.b[i];
    d_squared += std::norm(d[i]);
    b_squared += std::norm(system.b[i]);
  }
  return std::abs(product) / std::sqrt(d_squared * b_squared);
}

template <Scalar T>
Result solve_auto_of(const System<T>& system, const Options& options) {
  const SlabLayout layout = SlabLayout::even(system.n, 2, 1);
  Mesh& mesh = sparse_mesh_of(2);
  const RightHandSides<T> b(layout, 1);
  for (std::int64_t r = 0; r < 2; ++r) {
    for (std::int64_t i = 0; i < layout.width(r); ++i) {
      b.block(r)(i, 0) = system.b[static_cast<std::size_t>(layout.segment(r).begin.value() + i)];
    }
  }
  const RightHandSides<T> x(layout, 1);
  const SparseMatrix<T> a(mesh, csr_of(system), layout);
  return krylov::solve_auto(mesh, Operator<T>::sparse(a), to_devices(b), to_devices(x), options);
}

/// Not a residual of 1 or more, which x = 0 has.
void expect_no_promise_that_zero_keeps(const Result& result) {
  EXPECT_THAT(result.message, Not(HasSubstr("e+00 is attainable"))) << result.message;
}

TEST(KrylovSingular, DiagonalWithAZero_IsSingularAndAutoFindsTheLeastResidual) {
  System<double> system = diagonal_system<double>("1 0 2", {1.0, 0.0, 2.0});
  system.b = {1.0, 1.0, 1.0};
  const auto cg = solve_sparse_everywhere(system, {.method = Method::cg});
  EXPECT_EQ(cg.result.status, Status::singular_operator) << cg.result.message;
  EXPECT_EQ(cg.result.outcome.status, shardsolve::Status::not_converged);
  EXPECT_LT(cg.result.iterations, 10);
  EXPECT_THAT(
      cg.result.message,
      AllOf(HasSubstr("every x has a residual of at least 5.77e-01 ||b||"), HasSubstr("minres")));
  const auto minres = solve_sparse_everywhere(system, {.method = Method::minres});
  EXPECT_EQ(minres.result.status, Status::singular_operator) << minres.result.message;
  EXPECT_NEAR(minres.result.residual, std::sqrt(1.0 / 3.0), 1e-10);
  EXPECT_NEAR(minres.x[0], 1.0, 1e-8);
  EXPECT_NEAR(minres.x[2], 0.5, 1e-8);
  const Result automatic = solve_auto_of(system, {});
  ASSERT_EQ(automatic.attempts.size(), 2U);
  EXPECT_EQ(automatic.attempts[0].status, Status::singular_operator);
  EXPECT_EQ(automatic.attempts[1].method, Method::minres);
  EXPECT_NEAR(automatic.residual, std::sqrt(1.0 / 3.0), 1e-10);
}

template <class T>
class KrylovSingularOf : public ::testing::Test {};
TYPED_TEST_SUITE(KrylovSingularOf, Dtypes, DtypeNames);

TYPED_TEST(KrylovSingularOf, FreeSquare_IsSingularByItsConstants) {
  using T = TypeParam;
  System<T> system = free_square<T>(8);
  const double share = share_of(system, std::vector<T>(64, T{1}));
  const double rtol = unit_roundoff<T> > 1e-10 ? 1e-4 : 1e-9;
  for (const Method method : all_methods) {
    const auto answer = solve_sparse_everywhere(system, {.method = method, .rtol = rtol});
    EXPECT_EQ(answer.result.status, Status::singular_operator)
        << name(method) << " " << answer.result.message;
    EXPECT_THAT(answer.result.message, HasSubstr("constants are in its null space"));
    expect_no_promise_that_zero_keeps(answer.result);
    if (method == Method::minres) {
      EXPECT_NEAR(answer.result.residual, share, 1e-3 * share);
    }
    // With a b in the range all is well.
    const auto solved =
        solve_sparse_everywhere(with_mean_zero(system), {.method = method, .rtol = rtol});
    EXPECT_TRUE(krylov::is_converged(solved.result.status))
        << name(method) << " " << solved.result.message;
  }
  // Nothing but a constant: the least residual is that of x = 0.
  system.b.assign(64, T{1});
  for (const Method method : {Method::cg, Method::minres}) {
    const auto answer = solve_sparse_everywhere(system, {.method = method, .rtol = rtol});
    EXPECT_EQ(answer.result.status, Status::singular_operator) << answer.result.message;
    EXPECT_THAT(answer.result.message, HasSubstr("at least 1.00e+00 ||b||"));
  }
}

/// Two parts, each with constants of its own in the null space: those of all rows say little.
TEST(KrylovSingular, SeveralNullVectors_HaveTheLeastResidualOfThemAll) {
  System<double> system = make_system<double>("parts", 50, [](std::int64_t i, std::int64_t j) {
    static const System<double> one = free_square<double>(5);
    return i / 25 != j / 25 ? 0.0 : one.entry(i % 25, j % 25);
  });
  for (std::size_t i = 0; i < 50; ++i) {
    system.b[i] = (i < 25 ? 1.0 : -1.0) + 0.1 * random_number(5, static_cast<std::int64_t>(i));
  }
  for (const bool has_mean_zero : {false, true}) {
    const System<double> one = has_mean_zero ? with_mean_zero(system) : system;
    std::array<double, 2> means{};
    double b_squared = 0.0;
    for (std::size_t i = 0; i < 50; ++i) {
      means[i / 25] += one.b[i] / 25;
      b_squared += one.b[i] * one.b[i];
    }
    const double least = std::sqrt(25 * (means[0] * means[0] + means[1] * means[1]) / b_squared);
    for (const Method method : {Method::cg, Method::minres}) {
      const auto answer = solve_sparse_everywhere(one, {.method = method, .rtol = 1e-9});
      EXPECT_EQ(answer.result.status, Status::singular_operator) << answer.result.message;
      EXPECT_THAT(answer.result.message,
                  AllOf(HasSubstr(fmt::format("at least {:.2e} ||b||", least)),
                        HasSubstr("parts that no entry joins"), Not(HasSubstr("(its mean)"))));
      if (method == Method::minres) {  // it is not told to use itself
        EXPECT_THAT(answer.result.message,
                    AllOf(HasSubstr("x has the least residual"), Not(HasSubstr("or use"))));
      } else {
        EXPECT_THAT(answer.result.message, HasSubstr("or use method minres"));
      }
    }
  }
}

TEST(KrylovSingular, ZeroMatrix_HasAllOfBForItsLeastResidual) {
  const System<double> system =
      make_system<double>("zero", 20, [](std::int64_t /*i*/, std::int64_t /*j*/) { return 0.0; });
  for (const Method method : {Method::cg, Method::minres}) {
    const auto answer = solve_sparse_everywhere(system, {.method = method});
    EXPECT_EQ(answer.result.status, Status::singular_operator)
        << name(method) << " " << answer.result.message;
    EXPECT_THAT(answer.result.message, HasSubstr("at least 1.00e+00 ||b||")) << name(method);
  }
}

/// M b = b and M r = r, but M is not 1: x has the least residual in the norm of M alone.
TEST(KrylovSingular, PreconditionedMinres_DoesNotSayThatItsResidualIsTheLeast) {
  const System<double> path{"path", 3, {1, -1, 0, -1, 2, -1, 0, -1, 1}, {1, 0, 0}};
  const auto m = Operator<double>::jacobi(csr_of(path));
  const auto answer = solve_on(cpu_rank(), row_slabs(3, 1), path, operator_of(path), &m,
                               {.method = Method::minres});
  EXPECT_EQ(answer.result.status, Status::singular_operator);
  EXPECT_THAT(answer.result.message, HasSubstr("at least 5.77e-01 ||b||"));
}

TEST(KrylovSingular, LimitThatIsTooLow_IsNoReasonIfBIsInTheRange) {
  const Options options{.method = Method::cg, .rtol = 1e-12, .max_iterations = 5};
  const auto consistent = solve_sparse_everywhere(with_mean_zero(free_square<double>(8)), options);
  EXPECT_EQ(consistent.result.status, Status::max_iterations) << consistent.result.message;
  EXPECT_THAT(consistent.result.message, HasSubstr("A is singular"));
  const auto other = solve_sparse_everywhere(free_square<double>(8), options);
  EXPECT_EQ(other.result.status, Status::singular_operator) << other.result.message;
}

TEST(KrylovSingular, NullVectorThatIsNoConstant_IsFoundByCgAndMinres) {
  const System<double> system = weighted(free_square<double>(8), 1.4);
  std::vector<double> null;
  for (std::int64_t i = 0; i < system.n; ++i) {
    null.push_back(std::pow(10.0, -0.7 * random_number(41, i)));
  }
  const double share = share_of(system, null);
  for (const Method method : {Method::cg, Method::minres}) {
    const auto answer = solve_sparse_everywhere(system, {.method = method, .rtol = 1e-9});
    EXPECT_EQ(answer.result.status, Status::singular_operator)
        << name(method) << " " << answer.result.message;
    EXPECT_THAT(answer.result.message,
                AllOf(HasSubstr("a vector that the method has found"),
                      HasSubstr(fmt::format("at least {:.2e} ||b||", share))));
  }
}

TEST(KrylovSingular, IndefiniteMatrix_HasItsLeastResidualByMinres) {
  System<double> system = free_square<double>(8);
  const double shift = 2.0 - 2.0 * std::cos(3.0 * std::numbers::pi / 8.0);
  for (std::int64_t i = 0; i < system.n; ++i) {
    system.a[static_cast<std::size_t>(i * system.n + i)] -= shift;
  }
  const auto answer = solve_sparse_everywhere(system, {.method = Method::minres, .rtol = 1e-9});
  EXPECT_EQ(answer.result.status, Status::singular_operator) << answer.result.message;
  const Result automatic = solve_auto_of(system, {.rtol = 1e-9});
  EXPECT_EQ(automatic.status, Status::singular_operator) << automatic.message;
  EXPECT_EQ(automatic.attempts.size(), 2U);
}

TEST(KrylovSingular, IllConditionedMatrices_AreNotSingular) {
  // Eigenvalues of 1e-3 to 1e-9 beside others of about 1.
  for (const double small : {1e-3, 1e-6, 1e-9}) {
    std::vector<double> d;
    for (std::int64_t i = 0; i < 60; ++i) {
      d.push_back(i % 20 == 3 ? small * (1.0 + 0.3 * random_number(3, i))
                              : 1.0 + 0.5 * random_number(4, i));
    }
    const System<double> system = diagonal_system<double>("small eigenvalues", d);
    for (const Method method : all_methods) {
      const auto answer =
          solve_sparse_everywhere(system, {.method = method, .rtol = 1e-8, .restart = 60});
      EXPECT_NE(answer.result.status, Status::singular_operator)
          << small << name(method) << answer.result.message;
    }
  }
}

TEST(KrylovSingular, WindOverAFreeSquare_GoesOnToFgmres) {
  const System<double> system = free_square<double>(8, 0.5);
  const Result result = solve_auto_of(system, {.rtol = 1e-9});
  EXPECT_EQ(result.status, Status::singular_operator) << result.message;
  ASSERT_EQ(result.attempts.size(), 3U);
  EXPECT_EQ(result.attempts[0].status, Status::nonsymmetric_operator);
  EXPECT_EQ(result.attempts[1].status, Status::singular_operator);
  EXPECT_THAT(result.message, HasSubstr("see whether b is in the range of A"));
}

TEST(KrylovSingular, Diagnosis_SaysSoAndTriesSystemsThatHaveASolution) {
  const CsrMatrix<double> square = csr_of(free_square<double>(9));
  const auto diagnosis = krylov::diagnose(sparse_mesh_of(2), square);
  EXPECT_EQ(to_text(diagnosis), to_text(krylov::diagnose(sparse_mesh_of(3), square)));
  EXPECT_TRUE(diagnosis.is_singular);
  EXPECT_EQ(diagnosis.figures->null_parts.count, 1);
  EXPECT_EQ(diagnosis.definiteness, Definiteness::positive_semidefinite);
  EXPECT_GE(diagnosis.best, 0) << to_text(diagnosis);
  EXPECT_EQ(diagnosis.condition, 0.0);
  EXPECT_THAT(diagnosis.findings,
              Contains(AllOf(HasSubstr("A is singular: constants are in its null space"),
                             HasSubstr("the sum of b is 0"), HasSubstr("fix one value of x"))));
  EXPECT_THAT(to_text(diagnosis), Not(HasSubstr("positive definite")));

  // Two squares without a link, of which one is held.
  System<double> parts = make_system<double>("parts", 50, [](std::int64_t i, std::int64_t j) {
    static const System<double> one = free_square<double>(5);
    return i / 25 != j / 25 ? 0.0 : one.entry(i % 25, j % 25) + (i == j && i == 30 ? 1.0 : 0.0);
  });
  const auto of_parts = krylov::diagnose(sparse_mesh_of(2), csr_of(parts));
  EXPECT_EQ(of_parts.figures->null_parts.count, 1);
  EXPECT_EQ(of_parts.figures->null_parts.first, 0);
  parts.a[30 * 50 + 30] -= 1.0;
  EXPECT_THAT(krylov::diagnose(sparse_mesh_of(2), csr_of(parts)).findings,
              Contains(HasSubstr("on each of 2 parts")));

  // A null vector that only a solve shows; and products alone.
  const auto other =
      krylov::diagnose(sparse_mesh_of(2), csr_of(weighted(free_square<double>(8), 1.0)));
  EXPECT_TRUE(other.is_singular) << to_text(other);
  EXPECT_EQ(other.definiteness, Definiteness::positive_semidefinite);
  EXPECT_GE(other.best, 0) << to_text(other);
  const SlabLayout layout = SlabLayout::even(81, 2, 1);
  const auto by_products = krylov::diagnose(
      sparse_mesh_of(2),
      Operator<double>::sparse(SparseMatrix<double>(sparse_mesh_of(2), square, layout)), layout);
  EXPECT_TRUE(by_products.is_singular);
  EXPECT_GE(by_products.best, 0) << to_text(by_products);
}

/// I - h J of reactions whose rates lie decades apart, as chemistry has them.
System<double> kinetics(std::int64_t n, double decades, std::int64_t seed) {
  System<double> system =
      diagonal_system<double>("kinetics", std::vector<double>(static_cast<std::size_t>(n), 1.0));
  const auto pick = [&](std::int64_t reaction, std::int64_t which) {
    const double number = 0.5 + 0.5 * random_number(seed, 8 * reaction + which);
    return std::min<std::int64_t>(n - 1,
                                  static_cast<std::int64_t>(number * static_cast<double>(n)));
  };
  for (std::int64_t reaction = 0; reaction < 4 * n; ++reaction) {
    const std::int64_t one = pick(reaction, 0);
    const std::int64_t other = pick(reaction, 1);
    const std::int64_t product = pick(reaction, 2);
    if (one == other || one == product || other == product) {
      continue;
    }
    const auto decade = [&](std::int64_t which) {
      return random_number(seed, 8 * reaction + which);
    };
    const double rate = std::pow(10.0, decades * (0.17 + 0.83 * decade(3)));
    const std::array<std::pair<std::int64_t, double>, 2> of{
        std::pair{one, rate * std::pow(10.0, -1.5 + 1.5 * decade(4))},
        std::pair{other, rate * std::pow(10.0, -1.5 + 1.5 * decade(5))}};
    for (const auto& [column, change] : of) {
      system.a[static_cast<std::size_t>(one * n + column)] += change;
      system.a[static_cast<std::size_t>(other * n + column)] += change;
      system.a[static_cast<std::size_t>(product * n + column)] -= change;
    }
  }
  for (std::int64_t i = 0; i < n; ++i) {  // x = 1
    double sum = 0.0;
    for (std::int64_t j = 0; j < n; ++j) {
      sum += system.entry(i, j);
    }
    system.b[static_cast<std::size_t>(i)] = sum;
  }
  return system;
}

/// ||x - 1|| / ||x||.
double error_of(const std::vector<double>& x) {
  double error = 0.0;
  double size = 0.0;
  for (const double value : x) {
    error += (value - 1.0) * (value - 1.0);
    size += value * value;
  }
  return std::sqrt(error / size);
}

TEST(KrylovErrorEstimate, SmallResidual_DoesNotHideAUselessX) {
  std::int64_t useless = 0;
  for (const std::int64_t seed : {1, 2, 3, 4}) {
    const System<double> system = kinetics(60, 6.0, seed);
    const CsrMatrix<double> a = csr_of(system);
    const MakeOperator<double> ilu = [&](Mesh&, const SlabLayout&) {
      return Operator<double>::incomplete_lu({0, 60}, a);
    };
    for (const double rtol : {1e-4, 1e-6, 1e-9}) {
      for (const Method method : {Method::bicgstab, Method::fgmres}) {
        const auto answer =
            solve_sparse_everywhere(system, {.method = method, .rtol = rtol, .restart = 60}, ilu);
        if (!krylov::is_converged(answer.result.status)) {
          continue;
        }
        const double error = error_of(answer.x);
        const double estimate = answer.result.error_estimate;
        EXPECT_GT(estimate, 0.1 * error) << seed << name(method) << rtol;
        EXPECT_LT(estimate, 300.0 * error + 1e-12) << seed << name(method) << rtol;
        if (error > 0.3 && answer.result.residual < 1e-4 && method == Method::bicgstab) {
          ++useless;
          EXPECT_THAT(answer.result.message, HasSubstr("x may have few correct digits or none"));
        }
      }
    }
  }
  EXPECT_GE(useless, 1);
}

/// Reflections on both sides hide the values from the products of a basis; b is of the large ones.
TEST(KrylovErrorEstimate, SmallSingularValues_AreSeenByFgmres) {
  constexpr std::int64_t n = 60;
  for (const double decades : {3.0, 6.0, 9.0}) {
    const auto entry_of = [&](std::int64_t i, std::int64_t j) {
      // (I - 2 e e^T / n) D (I - 2 f f^T / n) with entries of 1 in e, of 1 and -1 in turn in f
      const auto value = [&](std::int64_t l) {
        return std::pow(10.0, -decades * static_cast<double>(l) / (n - 1));
      };
      const auto sign = [](std::int64_t l) { return l % 2 == 0 ? 1.0 : -1.0; };
      double middle = 0.0;
      for (std::int64_t l = 0; l < n; ++l) {
        middle += value(l) * sign(l);
      }
      return (i == j ? value(i) : 0.0) - 2.0 / n * value(j) -
             2.0 / n * value(i) * sign(i) * sign(j) + 4.0 / (n * n) * middle * sign(j);
    };
    System<double> system = diagonal_system<double>("hidden", std::vector<double>(n, 1.0));
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0.0;
      for (std::int64_t j = 0; j < n; ++j) {
        system.a[static_cast<std::size_t>(i * n + j)] = entry_of(i, j);
        sum += entry_of(i, j);
      }
      system.b[static_cast<std::size_t>(i)] = sum;
    }
    const auto answer =
        solve_sparse_everywhere(system, {.method = Method::fgmres, .rtol = 1e-10, .restart = 60});
    ASSERT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
    // least singular value 10^-decades, ||A||_2 = 1
    const double largest = answer.result.residual * std::pow(10.0, decades);
    EXPECT_GE(answer.result.error_estimate, 0.1 * error_of(answer.x)) << decades;
    EXPECT_LE(answer.result.error_estimate, 10.0 * largest) << decades;
  }
}

TEST(KrylovErrorEstimate, DefiniteMatrix_HasAConditionFromBelow) {
  for (const double kappa : {1e2, 1e4, 1e6}) {
    std::vector<double> d;
    for (std::int64_t i = 0; i < 60; ++i) {
      d.push_back(std::pow(kappa, -static_cast<double>(i) / 59.0));
    }
    System<double> system = diagonal_system<double>("condition", d);
    for (std::size_t i = 0; i < 60; ++i) {
      system.b[i] = d[i];
    }
    const auto answer = solve_sparse_everywhere(system, {.method = Method::cg, .rtol = 1e-7});
    ASSERT_TRUE(krylov::is_converged(answer.result.status));
    EXPECT_LE(answer.result.condition, 1.01 * kappa);
    EXPECT_GE(answer.result.condition, 0.01 * kappa);
    EXPECT_GE(answer.result.error_estimate, 0.05 * error_of(answer.x)) << kappa;
    const auto other = solve_sparse_everywhere(system, {.method = Method::minres, .rtol = 1e-7});
    EXPECT_LE(other.result.condition, 1.01 * kappa);
    EXPECT_GE(other.result.condition, 0.1 * kappa);
    EXPECT_GE(other.result.error_estimate, 0.1 * error_of(other.x)) << kappa;
  }
}

}  // namespace
}  // namespace shardsolve::testing::krylov_problems
