// solve_auto: the next method for a reason, and only then.

#include "support/krylov_sparse.hpp"

#include <shardsolve/krylov.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

namespace shardsolve::testing::krylov_problems {
namespace {

using krylov::Attempt;
using krylov::Method;
using krylov::Options;
using krylov::Status;
using ::testing::HasSubstr;

/// Solves by solve_auto on some cuts; results are the same.
Answer<double> solve_auto_everywhere(const System<double>& system, Options options,
                                     const Operator<double>* m = nullptr,
                                     const RunOptions& run = {}) {
  std::optional<Answer<double>> first;
  for (const SlabLayout& layout : few_cuts_of(system.n)) {
    Mesh& mesh = sparse_mesh_of(layout.ranks());
    const RightHandSides<double> b(layout, 1);
    const RightHandSides<double> x(layout, 1);
    for (std::int64_t r = 0; r < layout.ranks(); ++r) {
      for (std::int64_t i = 0; i < layout.width(r); ++i) {
        const auto row = static_cast<std::size_t>(layout.segment(r).begin.value() + i);
        b.block(r)(i, 0) = system.b[row];
        x.block(r)(i, 0) = system.guess ? (*system.guess)[row] : 77.0;
      }
    }
    options.use_guess = system.guess.has_value();
    const auto a = Operator<double>::sparse(SparseMatrix<double>(mesh, csr_of(system), layout));
    Answer<double> answer;
    const RightHandSides<double> own_b = to_devices(b);
    const RightHandSides<double> own_x = to_devices(x);
    answer.result = m == nullptr ? krylov::solve_auto(mesh, a, own_b, own_x, options, run)
                                 : krylov::solve_auto(mesh, a, *m, own_b, own_x, options, run);
    const RightHandSides<double> found = to_host(own_x);
    for (std::int64_t r = 0; r < layout.ranks(); ++r) {
      for (std::int64_t i = 0; i < layout.width(r); ++i) {
        answer.x.push_back(found.block(r)(i, 0));
      }
    }
    if (!first) {
      first = answer;
    }
    EXPECT_TRUE(same_bits(answer, *first)) << "on " << layout.ranks();
    EXPECT_EQ(answer.result.attempts.size(), first->result.attempts.size());
  }
  EXPECT_TRUE(all_finite(first->x));
  if (krylov::is_converged(first->result.status)) {
    EXPECT_LE(true_residual(system, first->x),
              1.01 * options.rtol.value_or(krylov::default_rtol(Dtype::float64)));
  }
  return *first;
}

std::vector<std::pair<Method, Status>> steps_of(const krylov::Result& result) {
  std::vector<std::pair<Method, Status>> steps;
  for (const Attempt& attempt : result.attempts) {
    steps.emplace_back(attempt.method, attempt.status);
  }
  return steps;
}
using Steps = std::vector<std::pair<Method, Status>>;

TEST(KrylovAuto, DefiniteSystem_IsSolvedByTheFirstMethod) {
  const auto answer = solve_auto_everywhere(laplacian<double>(90, 2.1), {.rtol = 1e-10});
  EXPECT_EQ(steps_of(answer.result), (Steps{{Method::cg, Status::converged_rtol}}));
  EXPECT_EQ(answer.result.attempts.front().iterations, answer.result.iterations);
}

TEST(KrylovAuto, IndefiniteSystem_GoesOnToMinres) {
  const auto answer = solve_auto_everywhere(laplacian<double>(90, 0.63), {.rtol = 1e-10});
  EXPECT_EQ(steps_of(answer.result), (Steps{{Method::cg, Status::indefinite_operator},
                                            {Method::minres, Status::converged_rtol}}));
  EXPECT_THAT(answer.result.attempts.front().message, HasSubstr("not positive definite"));
}

TEST(KrylovAuto, AsymmetricSystem_GoesOnToBicgstab) {
  System<double> system = convection<double>(90);
  EXPECT_EQ(steps_of(solve_auto_everywhere(system, {.rtol = 1e-10}).result),
            (Steps{{Method::cg, Status::nonsymmetric_operator},
                   {Method::bicgstab, Status::converged_rtol}}));
  // Its guess is kept on the way.
  system.guess = solve_auto_everywhere(system, {.rtol = 1e-12}).x;
  const auto answer = solve_auto_everywhere(system, {.rtol = 1e-10});
  EXPECT_EQ(answer.result.status, Status::converged_at_start);
  EXPECT_EQ(answer.x, *system.guess);
}

TEST(KrylovAuto, BeginsWithTheMethodOfTheOptions) {
  EXPECT_EQ(steps_of(solve_auto_everywhere(convection<double>(90),
                                           {.method = Method::bicgstab, .rtol = 1e-10})
                         .result),
            (Steps{{Method::bicgstab, Status::converged_rtol}}));
}

TEST(KrylovAuto, BreakdownOfBicgstab_GoesOnToFgmres) {
  auto skew = make_system<double>("skew", 40, [](std::int64_t i, std::int64_t j) {
    return i - j == 1 ? 1.0 : j - i == 1 ? -1.0 : 0.0;
  });
  const auto answer = solve_auto_everywhere(skew, {.rtol = 1e-10, .restart = 40});
  ASSERT_GE(answer.result.attempts.size(), 2U);
  EXPECT_EQ(answer.result.attempts[0].status, Status::nonsymmetric_operator);
  EXPECT_TRUE(krylov::is_converged(answer.result.status)) << answer.result.message;
}

TEST(KrylovAuto, IndefinitePreconditioner_SkipsMinres) {
  if (!test_gpus().empty()) {
    GTEST_SKIP() << "of CPU devices";
  }
  const System<double> system = laplacian<double>(40, 2.5);
  std::vector<double> d(40, -1.0);
  d[3] = 2.0;
  const Operator<double> m = operator_of(diagonal_system<double>("negative", d));
  const auto answer = solve_auto_everywhere(system, {.rtol = 1e-10}, &m);
  EXPECT_EQ(steps_of(answer.result), (Steps{{Method::cg, Status::indefinite_preconditioner},
                                            {Method::bicgstab, Status::converged_rtol}}));
}

TEST(KrylovAuto, StatusesThatNameNoReason_EndTheChain) {
  const auto status_of = [](const System<double>& system, const Options& options,
                            const RunOptions& run = {}) {
    const auto result = solve_auto_everywhere(system, options, nullptr, run).result;
    EXPECT_EQ(result.attempts.size(), 1U) << result.message;
    return result.status;
  };
  EXPECT_EQ(status_of(laplacian<double>(120), {.rtol = 1e-10, .max_iterations = 17}),
            Status::max_iterations);
  EXPECT_EQ(status_of(laplacian<double>(60), {.rtol = 1e-17, .max_iterations = 3000}),
            Status::accuracy_limit);
  System<double> nan = laplacian<double>(60);
  nan.a[5 * 60 + 5] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(status_of(nan, {.rtol = 1e-10}), Status::nonfinite_operator);
  std::stop_source source;
  source.request_stop();
  RunOptions run;
  run.cancel = source.get_token();
  EXPECT_EQ(status_of(laplacian<double>(400), {.rtol = 1e-12}, run), Status::cancelled);
}

}  // namespace
}  // namespace shardsolve::testing::krylov_problems
