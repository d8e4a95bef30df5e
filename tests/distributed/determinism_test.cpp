// The same bits, whatever else the machine does.

#include "support/bits.hpp"
#include "support/busy.hpp"
#include "support/dtypes.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/cholesky.hpp>

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

/// Everything that one problem gives.
template <Scalar T>
struct Answers {
  DenseMatrix<T> x;
  DenseMatrix<T> inverse;
  std::vector<double> numbers;  // certificates
};

/// Rows enough for a few steps of each rank; the spectrum makes roundings visible.
template <Scalar T>
Answers<T> all_answers(Mesh& mesh) {
  const SlabLayout layout = SlabLayout::even(59, mesh.ranks(), 5);
  const DenseMatrix<T> a = dense<T>(
      {.kind = matgen::Kind::gaussian_plane, .n = layout.size(), .seed = 3, .jitter = 1e-2});
  CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
  EXPECT_TRUE(factor.outcome.ok());
  const RightHandSides<T> x = shard_rows(right_hand_sides<T>(layout.size(), 9), layout);
  const Outcome solved = cholesky_solve(mesh, factor, x);
  const double rcond = condition_estimate(mesh, factor);
  const double determinant = log_determinant(factor);
  const ShardedMatrix<T> slabs = factor.slabs;
  const Outcome inverted = cholesky_inverse(mesh, std::move(factor));
  return {whole(x),
          whole(slabs),
          {solved.backward_error.value_or(-1), rcond, determinant,
           inverted.backward_error.value_or(-1), inverted.rcond.value_or(-1)}};
}

template <Scalar T>
void expect_same(const Answers<T>& a, const Answers<T>& b) {
  EXPECT_TRUE(same_bits(a.x, b.x));
  EXPECT_TRUE(same_bits(a.inverse, b.inverse));
  EXPECT_EQ(a.numbers, b.numbers);
}

template <class T>
class Determinism : public ::testing::Test {};
TYPED_TEST_SUITE(Determinism, Dtypes, DtypeNames);

TYPED_TEST(Determinism, TwentyRunsOnALoadedMachine_GiveTheSameBits) {
  using T = TypeParam;
  constexpr int runs = 20;
  Mesh mesh = make_mesh(4);
  const Answers<T> quiet = all_answers<T>(mesh);
  const BusyThreads busy(2);
  for (int run = 0; run < runs && !::testing::Test::HasFailure(); ++run) {
    if (run % 5 == 0) {
      mesh = make_mesh(4);
    }
    expect_same(all_answers<T>(mesh), quiet);
  }
}

TYPED_TEST(Determinism, OtherMeshesAtWork_DoNotChangeTheBits) {
  using T = TypeParam;
  Mesh mesh = make_mesh(3);
  const Answers<T> alone = all_answers<T>(mesh);
  std::vector<Answers<T>> answers(4);
  std::vector<std::thread> callers;
  callers.reserve(answers.size());
  for (Answers<T>& one : answers) {
    callers.emplace_back([&one] {
      Mesh own = make_mesh(3);
      one = all_answers<T>(own);
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  for (const Answers<T>& one : answers) {
    expect_same(one, alone);
  }
}

TYPED_TEST(Determinism, TwoThreadsCallingOneMesh_GetTheirOwnAnswers) {
  using T = TypeParam;
  Mesh mesh = make_mesh(3);
  const Answers<T> alone = all_answers<T>(mesh);
  const auto call = [&] {
    for (int run = 0; run < 5; ++run) {
      expect_same(all_answers<T>(mesh), alone);
    }
  };
  std::thread other(call);
  call();
  other.join();
}

}  // namespace
}  // namespace shardsolve::testing
