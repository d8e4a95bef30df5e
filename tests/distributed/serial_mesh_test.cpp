// One rank that computes in the thread of the caller.

#include "support/backend.hpp"
#include "support/bits.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"
#include "support/rank_program.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/trace.hpp>

#include <gtest/gtest.h>

#include <cfenv>
#include <complex>
#include <cstdint>
#include <thread>

namespace shardsolve::testing {
namespace {

template <class T>
class SerialMesh : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test_gpus().empty()) {
      GTEST_SKIP() << "of CPU devices";
    }
  }
};
TYPED_TEST_SUITE(SerialMesh, Dtypes, DtypeNames);

TYPED_TEST(SerialMesh, AllCalls_GiveTheBitsOfOneRankWithThreads) {
  using T = TypeParam;
  for (const std::int64_t n : {0, 1, 100}) {
    SCOPED_TRACE(n);
    const SlabLayout layout = SlabLayout::even(n, 1, 24);
    const DenseMatrix<T> a = dense<T>({.n = n, .seed = 5});
    const DenseMatrix<T> b = right_hand_sides<T>(n, 3);
    const auto all_of = [&](Mesh mesh) {
      CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
      EXPECT_TRUE(factor.outcome.ok());
      const RightHandSides<T> x = shard_rows(b, layout);
      const Outcome solved = cholesky_solve(mesh, factor, x);
      const double rcond = condition_estimate(mesh, factor);
      const double logs = log_determinant(factor);
      const Outcome inverted = cholesky_inverse(mesh, std::move(factor));
      EXPECT_TRUE(solved.ok() && inverted.ok());
      DenseMatrix<double> figures(4, 1);
      figures(0, 0) = *solved.backward_error;
      figures(1, 0) = rcond;
      figures(2, 0) = logs;
      figures(3, 0) = *inverted.backward_error;
      return std::pair(whole(x), figures);
    };
    const auto [x, figures] = all_of(Mesh::serial());
    const auto [expected_x, expected_figures] = all_of(Mesh::host(1));
    EXPECT_TRUE(same_bits(x, expected_x));
    EXPECT_TRUE(same_bits(figures, expected_figures));
  }
}

TYPED_TEST(SerialMesh, Failure_IsReportedAndTheNextCallWorks) {
  using T = TypeParam;
  Mesh mesh = Mesh::serial();
  EXPECT_TRUE(throws(ErrorKind::internal, [&] {
    run_on(mesh, [](mesh::Rank& rank) {
      rank.kernels<T>().copy(rank.update(), MatrixView<const T>(nullptr, 2, 0),
                             MatrixView<T>(nullptr, 3, 0));
    });
  }));
  const SlabLayout layout = SlabLayout::even(50, 1, 16);
  DenseMatrix<T> a = dense<T>({.n = 50, .seed = 5});
  const DenseMatrix<T> b = right_hand_sides<T>(50, 1);
  const RightHandSides<T> x = shard_rows(b, layout);
  ASSERT_TRUE(solve(mesh, shard(a, layout), x).ok());
  EXPECT_TRUE(solves(a, whole(x), b));
  a(20, 20) = T{-1};
  EXPECT_EQ(cholesky_factor(mesh, shard(a, layout)).outcome.status, Status::not_positive_definite);
}

TYPED_TEST(SerialMesh, Call_ComputesInTheCallersThreadAndLeavesItsArithmetic) {
  Mesh mesh = Mesh::serial();
  std::fesetround(FE_UPWARD);
  int rounding = -1;
  std::thread::id thread;
  run_on(mesh, [&](mesh::Rank&) {
    rounding = std::fegetround();
    thread = std::this_thread::get_id();
  });
  const int after = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(rounding, FE_TONEAREST);
  EXPECT_EQ(after, FE_UPWARD);
  EXPECT_EQ(thread, std::this_thread::get_id());
}

TYPED_TEST(SerialMesh, Trace_HasItsKernels) {
  using T = TypeParam;
  Mesh mesh = Mesh::serial();
  Trace trace;
  RunOptions options;
  options.trace = &trace;
  const SlabLayout layout = SlabLayout::even(50, 1, 16);
  ASSERT_TRUE(
      cholesky_factor(mesh, shard(dense<T>({.n = 50, .seed = 5}), layout), options).outcome.ok());
  EXPECT_NE(trace.to_json().find("potrf"), std::string::npos);
}

}  // namespace
}  // namespace shardsolve::testing
