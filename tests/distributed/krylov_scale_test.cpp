// A, M, b and the guess times powers of two, far beyond where squares stay in range: the same
// status, the same residuals to the bit, and x times a power of two.

#include "support/dtypes.hpp"
#include "support/krylov_sparse.hpp"

#include <shardsolve/krylov.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace shardsolve::testing::krylov_problems {
namespace {

using krylov::Method;

template <Scalar T>
std::vector<T> times_power(std::vector<T> numbers, int exponent) {
  for (T& number : numbers) {
    if constexpr (is_complex<T>) {
      number = {std::ldexp(number.real(), exponent), std::ldexp(number.imag(), exponent)};
    } else {
      number = std::ldexp(number, exponent);
    }
  }
  return numbers;
}

/// Exponents of A, b and M, which for minres has to be even.
struct Powers {
  int a;
  int b;
  int m;
};

template <Scalar T>
std::vector<Powers> extreme_powers() {
  if (sizeof(RealOf<T>) == sizeof(float)) {
    return {{60, 0, 0},  {-60, 0, 0},    {100, 100, 0}, {0, 0, 60},
            {0, 0, -60}, {60, -30, -60}, {-60, 30, 60}};
  }
  return {{511, 0, 0}, {-511, 0, 0}, {960, 900, 0},  {-900, -900, 0},
          {0, 0, 510}, {0, 0, -660}, {511, 3, -510}, {-511, 0, 510}};
}

template <Scalar T>
Answer<T> solve_times(const System<T>& plain, Powers by, Method method, bool sparse, bool with_m) {
  System<T> system = plain;
  system.a = times_power(plain.a, by.a);
  system.b = times_power(plain.b, by.b);
  if (plain.guess) {
    system.guess = times_power(*plain.guess, by.b - by.a);
  }
  System<T> diagonal = plain;
  diagonal.a = times_power(plain.a, -by.m);
  const Operator<T> m = jacobi_of(diagonal);
  const SlabLayout layout = row_slabs(plain.n, 1);
  const krylov::Options options{.method = method, .rtol = 1e4 * unit_roundoff<T>};
  return sparse ? solve_sparse_on(cpu_rank(), layout, system, csr_of(system), with_m ? &m : nullptr,
                                  options)
                : solve_on(cpu_rank(), layout, system, operator_of(system), with_m ? &m : nullptr,
                           options);
}

template <class T>
class KrylovScale : public ::testing::Test {};
TYPED_TEST_SUITE(KrylovScale, Dtypes, DtypeNames);

TYPED_TEST(KrylovScale, ExtremePowersOfTwo_ChangeNoBit) {
  using T = TypeParam;
  for (const Method method : {Method::cg, Method::minres, Method::bicgstab, Method::fgmres}) {
    for (const bool has_guess : {false, true}) {
      const bool is_hermitian = method == Method::cg || method == Method::minres;
      System<T> plain = is_hermitian ? laplacian<T>(70, 2.3) : convection<T>(70);
      for (std::int64_t i = 0; i < plain.n; ++i) {  // so that M is no multiple of I
        plain.a[static_cast<std::size_t>(i * plain.n + i)] += static_cast<RealOf<T>>(i % 5);
      }
      if (has_guess) {
        plain.guess.emplace();
        for (std::int64_t i = 0; i < plain.n; ++i) {
          plain.guess->push_back(random_scalar<T>(11, i));
        }
      }
      const bool sparse = has_guess;
      for (const bool with_m : {false, true}) {
        const Answer<T> expected = solve_times<T>(plain, {0, 0, 0}, method, sparse, with_m);
        EXPECT_TRUE(krylov::is_converged(expected.result.status)) << expected.result.message;
        for (const Powers& by : extreme_powers<T>()) {
          if (has_guess && !is_hermitian &&
              -by.a > std::numeric_limits<RealOf<T>>::max_exponent / 4) {
            continue;  // which is left out, as A is not known when it is looked at
          }
          SCOPED_TRACE(std::string(name(method)) + " A 2^" + std::to_string(by.a) + " b 2^" +
                       std::to_string(by.b) + " M 2^" + std::to_string(by.m));
          const Answer<T> found = solve_times<T>(plain, by, method, sparse, with_m);
          EXPECT_EQ(found.result.status, expected.result.status) << found.result.message;
          EXPECT_EQ(found.result.matvecs, expected.result.matvecs);
          EXPECT_EQ(found.result.residual, expected.result.residual);
          EXPECT_EQ(found.result.margin, expected.result.margin);
          ASSERT_EQ(found.result.log.size(), expected.result.log.size());
          for (std::size_t i = 0; i < found.result.log.size(); ++i) {
            ASSERT_EQ(found.result.log[i].residual, expected.result.log[i].residual) << i;
          }
          EXPECT_EQ(found.x, times_power(expected.x, by.b - by.a));
        }
      }
    }
  }
}

TYPED_TEST(KrylovScale, NamesOfWhatIsWrong_DoNotDependOnIt) {
  using T = TypeParam;
  const int far = sizeof(RealOf<T>) == sizeof(float) ? 60 : 600;
  std::vector<double> d(12, 1.0);
  d[5] = -2.0;
  System<T> indefinite = diagonal_system<T>("indefinite", d);
  System<T> zero = diagonal_system<T>("zero", std::vector<double>(12, 0.0));
  for (const int by : {-far, far}) {
    System<T> system = indefinite;
    system.a = times_power(indefinite.a, by);
    const auto solve = [&](const System<T>& one, Method method) {
      return solve_on(cpu_rank(), row_slabs(12, 1), one, operator_of(one), nullptr,
                      {.method = method, .rtol = 1e4 * unit_roundoff<T>});
    };
    EXPECT_EQ(solve(system, Method::cg).result.status, krylov::Status::indefinite_operator);
    System<T> convective = convection<T>(12);
    convective.a = times_power(convective.a, by);
    EXPECT_EQ(solve(convective, Method::minres).result.status,
              krylov::Status::nonsymmetric_operator);
    convective.a[17] = std::numeric_limits<RealOf<T>>::infinity();
    for (const Method method : {Method::cg, Method::bicgstab, Method::fgmres}) {
      EXPECT_EQ(solve(convective, method).result.status, krylov::Status::nonfinite_operator);
      EXPECT_FALSE(krylov::is_converged(solve(zero, method).result.status));
    }
  }
}

/// b that is tiny beside the guess: its square must not vanish.
TYPED_TEST(KrylovScale, GuessThatIsFarTooLarge_IsNoSolution) {
  using T = TypeParam;
  const int far = sizeof(RealOf<T>) == sizeof(float) ? 100 : 960;
  for (const Method method : {Method::cg, Method::minres, Method::bicgstab, Method::fgmres}) {
    System<T> system = laplacian<T>(20, 2.3);
    system.b = times_power(system.b, -far);
    for (const int of_a : {0, -far}) {
      System<T> scaled = system;
      scaled.a = times_power(system.a, of_a);
      scaled.guess = std::vector<T>(20, T{1});
      const auto answer = solve_on(cpu_rank(), row_slabs(20, 1), scaled, operator_of(scaled),
                                   nullptr, {.method = method, .rtol = 1e4 * unit_roundoff<T>});
      EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
      EXPECT_GT(answer.result.iterations, 0);
      System<T> plain = laplacian<T>(20, 2.3);
      EXPECT_LE(true_residual(plain, times_power(answer.x, far + of_a)), 1.01e4 * unit_roundoff<T>);
    }
  }
}

/// Beside A x0 nothing is left of b, or it is out of the range: the solve begins from 0.
TYPED_TEST(KrylovScale, GuessThatLeavesNothingOfB_IsLeftOut) {
  using T = TypeParam;
  constexpr bool is_float = sizeof(RealOf<T>) == sizeof(float);
  const int most = std::numeric_limits<RealOf<T>>::max_exponent;
  for (const Method method : {Method::cg, Method::minres, Method::bicgstab, Method::fgmres}) {
    for (const int of_a : {0, is_float ? 30 : 70, most / 2, most - 12}) {
      for (const int of_guess : {is_float ? 40 : 80, most / 2, most - 12}) {
        SCOPED_TRACE(::testing::Message() << "2^" << of_a << " A, 2^" << of_guess << " x0");
        System<T> system = laplacian<T>(20, 2.3);
        system.a = times_power(system.a, of_a);
        system.guess = times_power(std::vector<T>(20, T{1}), of_guess);
        const auto answer = solve_on(cpu_rank(), row_slabs(20, 1), system, operator_of(system),
                                     nullptr, {.method = method, .rtol = 1e4 * unit_roundoff<T>});
        EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
        EXPECT_LE(true_residual(laplacian<T>(20, 2.3), times_power(answer.x, of_a)),
                  1.01e4 * unit_roundoff<T>);
      }
    }
  }
}

/// The first part of x is lost below the range, and A makes it most of b.
TEST(KrylovLoss, PartsThatCount_AreNotCalledConverged) {
  System<float> system{"loss", 2, {1e8F, 0.0F, 0.0F, 1e-10F}, {2e-38F, 1e-38F}};
  for (const Method method : {Method::cg, Method::minres, Method::bicgstab, Method::fgmres}) {
    const auto m = krylov::Operator<float>::jacobi(csr_of(system));
    const auto answer =
        solve_on(cpu_rank(), row_slabs(2, 1), system, operator_of(system), &m, {.method = method});
    EXPECT_EQ(answer.result.status, krylov::Status::overflow) << answer.result.message;
  }
}

/// Residuals that are nothing but rounding said that A was not Hermitian, or singular.
TEST(KrylovLoss, ToleranceFarBelowRounding_IsALimitOfAccuracy) {
  using T = std::complex<double>;
  const System<T> system{"small",
                         4,
                         {{34, 0},
                          {-11, 4},
                          {24, 12},
                          {10, -2},
                          {-11, -4},
                          {35, 0},
                          {-4, -18},
                          {6, -12},
                          {24, -12},
                          {-4, 18},
                          {35, 0},
                          {17, 1},
                          {10, 2},
                          {6, 12},
                          {17, -1},
                          {57, 0}},
                         {{0, 0}, {3, 0}, {3, 0}, {3, 0}}};
  const auto answer = solve_on(cpu_rank(), row_slabs(4, 1), system, operator_of(system), nullptr,
                               {.method = Method::cg, .rtol = 0.0, .atol = 1e-200});
  EXPECT_EQ(answer.result.status, krylov::Status::accuracy_limit) << answer.result.message;
}

}  // namespace
}  // namespace shardsolve::testing::krylov_problems
