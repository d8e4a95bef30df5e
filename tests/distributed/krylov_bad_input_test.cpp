// Krylov solves that are given what makes no sense, or what no method can do much with: refused
// with what was given, what is accepted and what to do, or ended with a reason.

#include "support/krylov_sparse.hpp"
#include "support/process_meshes.hpp"
#include "support/thrown.hpp"

#include <shardsolve/krylov.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace shardsolve::testing::krylov_problems {
namespace bad_input {
namespace {

using krylov::Method;
using krylov::Options;
using krylov::Status;
using ::testing::HasSubstr;

constexpr Method methods[] = {Method::cg, Method::minres, Method::bicgstab, Method::fgmres};

/// Operators here are functions of C++.
Mesh& two_cpu_ranks() {
  static Mesh mesh = Mesh::host(2);
  return mesh;
}

Answer<double> solve_on_two(const System<double>& system, const Options& options,
                            const Operator<double>* m = nullptr) {
  return solve_on(two_cpu_ranks(), row_slabs(system.n, 2), system, operator_of(system), m, options);
}

TEST(KrylovMisuse, OptionsThatMakeNoSense_AreRefusedWithWhatIsAccepted) {
  const System<double> system = laplacian<double>(10);
  const auto refused = [&](const Options& options, const std::vector<std::string>& words) {
    expect_error([&] { solve_on_two(system, options); }, ErrorKind::invalid_argument, words);
  };
  refused({.rtol = 0.0}, {"rtol = 0 and atol = 0", "give one of them"});
  refused({.rtol = -1.0}, {"rtol = -1", "from 0 on"});
  refused({.rtol = std::numeric_limits<double>::quiet_NaN()}, {"rtol = nan", "finite"});
  refused({.atol = std::numeric_limits<double>::infinity()}, {"atol = inf", "finite"});
  refused({.max_iterations = 0}, {"max_iterations = 0", "at least 1"});
  refused({.method = Method::fgmres, .restart = 0}, {"restart = 0", "1 to 1000"});
  refused({.method = static_cast<Method>(9)}, {"method number 9", "fgmres"});
  EXPECT_TRUE(
      krylov::is_converged(solve_on_two(system, {.rtol = 0.0, .atol = 1e-9}).result.status));
}

TEST(KrylovMisuse, OperatorsThatMakeNoSense_AreRefused) {
  const System<double> system = laplacian<double>(10);
  const Operator<double> a = operator_of(system);
  expect_error([&] { Operator<double>::chebyshev(a, 0.0, 1.0, 3); }, ErrorKind::invalid_argument,
               {"from 0 to 1", "0 < low < high"});
  const auto blocks = [&](std::vector<std::int64_t> boundaries) {
    return Operator<double>::block_jacobi(std::move(boundaries), csr_of(system));
  };
  expect_error([&] { blocks({0, 5, 5, 10}); }, ErrorKind::invalid_argument, {"begin with 0, rise"});
  expect_error([&] { blocks({0, 9}); }, ErrorKind::invalid_argument, {"end at row 9", "10 rows"});
  const Operator<double> of_function =
      Operator<double>::block_jacobi({0, 9}, [](GlobalRange, const MatrixView<double>&) {});
  expect_error([&] { solve_on_two(system, {}, &of_function); }, ErrorKind::invalid_argument,
               {"end at row 9", "b has 10 rows"});
}

TEST(KrylovMisuse, FunctionThatThrows_EndsTheSolveWithItsMessage) {
  const System<double> system = laplacian<double>(10);
  const auto ends = [&](const std::function<void()>& fail, ErrorKind kind, const char* words) {
    const auto a = Operator<double>::callable([&](const double*, GlobalRange, double*) { fail(); });
    expect_error(
        [&] { solve_on(two_cpu_ranks(), row_slabs(10, 2), system, a, nullptr, Options{}); }, kind,
        {words});
  };
  ends([&] { solve_on_two(system, {}, nullptr); }, ErrorKind::invalid_argument,
       "made a call on the same mesh");
  ends([] { throw std::runtime_error("no more"); }, ErrorKind::invalid_argument,
       "given to Operator::callable has thrown: no more");
  ends([] { throw Error(ErrorKind::io, "gone"); }, ErrorKind::io, "gone");
  ends([] { throw 3; }, ErrorKind::invalid_argument, "what is no exception");
  expect_error([] { Operator<double>::callable(nullptr); }, ErrorKind::invalid_argument,
               {"an empty function"});
  const auto m = Operator<double>::block_jacobi(
      {0, 10},
      [](GlobalRange, const MatrixView<double>&) { throw std::runtime_error("no block"); });
  expect_error([&] { solve_on_two(system, {}, &m); }, ErrorKind::invalid_argument,
               {"given to Operator::block_jacobi has thrown: no block"});
  expect_error([] { Operator<double>::block_jacobi({0, 10}, krylov::FillBlock<double>()); },
               ErrorKind::invalid_argument, {"an empty function"});
  expect_error([] { Operator<double> nothing{Operator<double>::Make()}; },
               ErrorKind::invalid_argument, {"an empty function"});
}

TEST(KrylovChebyshevBounds, OfPoisson_AreAroundItsEigenvalues) {
  constexpr double pi = 3.14159265358979;
  const krylov::EigenvalueBounds bounds =
      krylov::chebyshev_bounds(csr_of(laplacian<std::complex<float>>(40)));
  const double least = 2.0 - 2.0 * std::cos(pi / 41.0);
  EXPECT_NEAR(bounds.low, least, 0.01 * least);
  EXPECT_GE(bounds.high, 2.0 + 2.0 * std::cos(pi / 41.0));
  EXPECT_LE(bounds.high, 4.0);
  const auto refused = [](const System<double>& system, const std::vector<std::string>& words) {
    expect_error([&] { krylov::chebyshev_bounds(csr_of(system)); }, ErrorKind::invalid_argument,
                 words);
  };
  refused(convection<double>(40), {"Hermitian"});
  refused(laplacian<double>(40, 1.0), {"positive definite", "eigenvalue of -"});
  refused(System<double>{"none", 0, {}, {}}, {"positive definite"});
  expect_error([] { krylov::chebyshev_bounds(csr_of(laplacian<double>(9)), 0); },
               ErrorKind::invalid_argument, {"steps = 0"});
}

TEST(KrylovMisuse, VectorsThatDoNotFit_AreRefused) {
  const System<double> system = laplacian<double>(10);
  const auto refused = [&](const RightHandSides<double>& b, const RightHandSides<double>& x,
                           const std::vector<std::string>& words) {
    expect_error([&] { krylov::solve(two_cpu_ranks(), operator_of(system), b, x); },
                 ErrorKind::invalid_argument, words);
  };
  const SlabLayout layout = row_slabs(10, 2);
  const RightHandSides<double> b(layout, 1);
  refused(b, b, {"b and x share memory", "memory of its own"});
  refused(RightHandSides<double>(layout, 2), b, {"b has 2 columns", "one by one"});
  refused(b, RightHandSides<double>(row_slabs({0, 4, 10}), 1), {"cut at other rows", "both alike"});
  refused(RightHandSides<double>(row_slabs(10, 3), 1), RightHandSides<double>(row_slabs(10, 3), 1),
          {"3 slabs", "2 ranks"});
}

TEST(KrylovMisuse, ProcessesThatCallForOtherSolves_AreRefusedInAll) {
  struct Case {
    Options options;  // of rank 1
    bool has_preconditioner;
    SlabLayout layout;
    std::vector<std::string> words;
  };
  const System<double> system = laplacian<double>(20);
  const Operator<double> a = operator_of(system);
  const Operator<double> m = jacobi_of(system);
  const SlabLayout even = row_slabs(20, 2);
  const std::vector<Case> cases{
      {{.method = Method::minres}, false, even, {"method minres", "method cg"}},
      {{.rtol = 1e-7}, false, even, {"rtol = 1e-07", "rtol = 1e-08"}},
      {{.atol = 1e-3}, false, even, {"atol = 0.001"}},
      {{.max_iterations = 7}, false, even, {"max_iterations = 7"}},
      {{.log = true}, false, even, {"log = true"}},
      {{}, true, even, {"a preconditioner", "no preconditioner"}},
      {{}, false, row_slabs({0, 7, 20}), {"b cut at row 7", "b cut at row 10"}}};
  ProcessMeshes processes(2);
  for (const Case& one : cases) {
    SCOPED_TRACE(one.words.front());
    const auto errors = processes.together([&](Mesh& own, std::int64_t rank) {
      const SlabLayout& layout = rank == 1 ? one.layout : even;
      const RightHandSides<double> b(layout, 1);
      const RightHandSides<double> x(layout, 1);
      const Options options = rank == 1 ? one.options : Options{};
      if (rank == 1 && one.has_preconditioner) {
        krylov::solve(own, a, m, b, x, options);
      } else {
        krylov::solve(own, a, b, x, options);
      }
    });
    for (const auto& error : errors) {
      ASSERT_TRUE(error.has_value());
      EXPECT_EQ(error->kind(), ErrorKind::invalid_argument) << error->what();
      EXPECT_THAT(error->what(), HasSubstr("call for the same solve"));
      for (const std::string& word : one.words) {
        EXPECT_THAT(error->what(), HasSubstr(word));
      }
    }
  }
}

TEST(KrylovBadInput, NegativeDiagonalOfJacobi_IsAnIndefinitePreconditioner) {
  System<double> system = laplacian<double>(40, 2.5);
  const Operator<double> a = operator_of(system);
  CsrMatrix<double> other = csr_of(system);
  for (std::int64_t row = 0; row < 40; ++row) {
    const auto begin =
        other.column_indices.begin() + other.row_pointers[static_cast<std::size_t>(row)];
    const auto at =
        std::find(begin, other.column_indices.end(), row) - other.column_indices.begin();
    other.values[static_cast<std::size_t>(at)] *= row == 7 ? -1.0 : 1.0;
  }
  const Operator<double> m = Operator<double>::jacobi(other);
  for (const Method method : {Method::cg, Method::minres}) {
    const Answer<double> answer = solve_on_two(system, {.method = method}, &m);
    EXPECT_EQ(answer.result.status, Status::indefinite_preconditioner) << answer.result.message;
    EXPECT_THAT(answer.result.message, HasSubstr("fgmres"));
  }
  EXPECT_TRUE(
      krylov::is_converged(solve_on_two(system, {.method = Method::fgmres}, &m).result.status));
}

TEST(KrylovBadInput, EmptyRow_EndsWithAReasonUnlessBIsZeroThere) {
  for (const bool is_consistent : {false, true}) {
    System<double> system = laplacian<double>(40, 2.5);
    for (std::size_t j = 0; j < 40; ++j) {
      system.a[17 * 40 + j] = 0.0;
      system.a[j * 40 + 17] = 0.0;
    }
    system.b[17] = is_consistent ? 0.0 : 1.0;
    for (const Method method : methods) {
      const Answer<double> answer =
          solve_on_two(system, {.method = method, .rtol = 1e-10, .max_iterations = 500});
      EXPECT_EQ(krylov::is_converged(answer.result.status), is_consistent)
          << name(method) << ": " << answer.result.message;
      EXPECT_TRUE(all_finite(answer.x));
      EXPECT_LE(true_residual(system, answer.x), 1.0);
    }
  }
}

/// M that is another one at every product.
Operator<double> varying_of(std::int64_t n) {
  const auto calls = std::make_shared<std::vector<std::int64_t>>(n, 0);  // by a rank's first row
  return Operator<double>::callable([calls](const double* x, GlobalRange rows, double* y) {
    if (rows.size() == 0) {
      return;
    }
    const std::int64_t call = ++(*calls)[static_cast<std::size_t>(rows.begin.value())];
    for (std::int64_t i = rows.begin.value(); i < rows.end.value(); ++i) {
      *y++ = x[i] * (1.0 + 0.5 * static_cast<double>((i + call) % 3));
    }
  });
}

TEST(KrylovBadInput, VaryingPreconditioner_IsNamedByCgAndTakenByFgmres) {
  const System<double> system = laplacian<double>(60, 2.2);
  for (const Method method : {Method::cg, Method::minres}) {
    const Operator<double> m = varying_of(60);
    const Answer<double> answer = solve_on_two(system, {.method = method}, &m);
    EXPECT_EQ(answer.result.status, Status::nonsymmetric_preconditioner) << answer.result.message;
    EXPECT_THAT(answer.result.message, HasSubstr("fgmres"));
  }
  const Operator<double> m = varying_of(60);
  const Answer<double> answer = solve_on_two(system, {.method = Method::fgmres, .rtol = 1e-10}, &m);
  EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
  EXPECT_LE(true_residual(system, answer.x), 1.01e-10);
}

TEST(KrylovBadInput, NearlySingularSystem_HasATrueVerdict) {
  // Condition 1e15: the residual of x is within rtol, or rounding is named.
  std::vector<double> d;
  for (std::int64_t i = 0; i < 50; ++i) {
    d.push_back(i == 20 ? 1e-15 : 1.0 + 0.02 * static_cast<double>(i));
  }
  System<double> system = diagonal_system<double>("nearly singular", d);
  // Turned by a reflection, so that products round.
  std::vector<double> v;
  double square = 0.0;
  for (std::int64_t i = 0; i < 50; ++i) {
    v.push_back(random_number(31, i));
    square += v.back() * v.back();
  }
  std::vector<double> a(2500);
  for (std::size_t i = 0; i < 50; ++i) {
    for (std::size_t j = 0; j < 50; ++j) {
      double sum = 0.0;
      for (std::size_t k = 0; k < 50; ++k) {
        const double left = (i == k ? 1.0 : 0.0) - 2.0 * v[i] * v[k] / square;
        const double right = (k == j ? 1.0 : 0.0) - 2.0 * v[k] * v[j] / square;
        sum += left * d[k] * right;
      }
      a[i * 50 + j] = sum;
    }
  }
  for (std::size_t i = 0; i < 50; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      a[i * 50 + j] = a[j * 50 + i];
    }
  }
  system.a = a;
  for (const Method method : methods) {
    const Answer<double> answer = solve_on_two(
        system, {.method = method, .rtol = 1e-10, .max_iterations = 2000, .restart = 50});
    EXPECT_TRUE(all_finite(answer.x));
    EXPECT_LE(answer.result.residual, 1.0 + 1e-12) << name(method) << ": " << answer.result.message;
    if (krylov::is_converged(answer.result.status)) {
      EXPECT_LE(true_residual(system, answer.x), 1.01e-10) << name(method);
    } else {
      EXPECT_NE(answer.result.status, Status::running);
      EXPECT_FALSE(answer.result.message.empty());
    }
  }
}

}  // namespace
}  // namespace bad_input
}  // namespace shardsolve::testing::krylov_problems
