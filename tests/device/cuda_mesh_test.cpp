// Meshes of GPUs: the order of work on their streams, what they keep, and what they refuse. Left
// out without a GPU: see support/backend.hpp.

#include "support/backend.hpp"
#include "support/bits.hpp"
#include "support/files.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"
#include "support/thrown.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/device_memory.hpp>
#include <shardsolve/factor_file.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

class CudaMesh : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_gpus().empty()) {
      GTEST_SKIP() << "no GPU: set SHARDSOLVE_TEST_GPUS";
    }
  }
};

/// Everything that one problem gives.
template <Scalar T>
struct Answer {
  DenseMatrix<T> factor;
  DenseMatrix<T> x;
  DenseMatrix<T> inverse;
  std::vector<double> numbers;  // certificates
};

/// Tiles enough for a few steps of each rank, wide enough for all kinds of kernels.
template <Scalar T>
Answer<T> answer(Mesh& mesh, const SlabLayout& layout, const DenseMatrix<T>& a) {
  CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
  EXPECT_TRUE(factor.outcome.ok()) << factor.outcome.message();
  Answer<T> answer;
  answer.factor = whole(factor.slabs);
  const RightHandSides<T> x = shard_rows(right_hand_sides<T>(a.rows(), 3), layout);
  const Outcome solved = cholesky_solve(mesh, factor, x);
  EXPECT_TRUE(solved.ok()) << solved.message();
  answer.x = whole(x);
  answer.numbers = {solved.backward_error.value_or(-1), condition_estimate(mesh, factor)};
  const ShardedMatrix<T> slabs = factor.slabs;
  const Outcome inverted = cholesky_inverse(mesh, std::move(factor));
  EXPECT_TRUE(inverted.ok()) << inverted.message();
  answer.inverse = whole(slabs);
  answer.numbers.push_back(inverted.backward_error.value_or(-1));
  return answer;
}

struct DelayedCase {
  SlabLayout layout;
  std::uint64_t seeds;
  int runs;
};

template <Scalar T>
void expect_same_bits_under_delays(const std::vector<DelayedCase>& cases) {
  for (const auto& [layout, seeds, runs] : cases) {
    const std::int64_t ranks = layout.ranks();
    const DenseMatrix<T> a = dense<T>(
        {.kind = matgen::Kind::gaussian_plane, .n = layout.size(), .seed = 3, .jitter = 1e-2});
    Mesh undisturbed = make_mesh(ranks);
    const Answer<T> expected = answer(undisturbed, layout, a);
    EXPECT_TRUE(solves(a, expected.x, right_hand_sides<T>(a.rows(), 3)));
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      Mesh mesh = make_mesh(ranks, seed);
      for (int run = 0; run < runs; ++run) {
        SCOPED_TRACE("ranks " + std::to_string(ranks) + ", seed " + std::to_string(seed));
        const Answer<T> found = answer(mesh, layout, a);
        ASSERT_TRUE(same_bits(found.factor, expected.factor));
        ASSERT_TRUE(same_bits(found.x, expected.x));
        ASSERT_TRUE(same_bits(found.inverse, expected.inverse));
        ASSERT_EQ(found.numbers, expected.numbers);
      }
    }
  }
}

/// A wait that is missing between two streams shows when their work takes other times than usual.
TEST_F(CudaMesh, RandomDelaysBeforeAllWork_ChangeNoBit) {
  // narrow tiles of several ranks, and wide ones: several launches a tile, panels in blocks and,
  // long ones, in one kernel
  expect_same_bits_under_delays<double>({{SlabLayout::even(397, 2, 33), 30, 6},
                                         {SlabLayout::even(397, 3, 33), 30, 4},
                                         {SlabLayout::even(397, 4, 33), 30, 3},
                                         {SlabLayout::even(2600, 2, 640), 4, 3},
                                         {SlabLayout::even(4480, 1, 640), 3, 2}});
}

/// Likewise with panels that are split.
TEST_F(CudaMesh, RandomDelaysInSinglePrecision_ChangeNoBit) {
  expect_same_bits_under_delays<float>({{SlabLayout::even(397, 2, 32), 15, 4},
                                        {SlabLayout::even(397, 3, 32), 15, 4},
                                        {SlabLayout::even(2600, 2, 640), 4, 3},
                                        {SlabLayout::even(2600, 1, 640), 4, 2}});
}

/// Columns of 32 numbers are split, and then are longer than such of 33.
TEST_F(CudaMesh, NarrowFirstBlock_FitsItsSlot) {
  const SlabLayout layout({0, 32, 1000}, 33);
  Mesh mesh = make_mesh(2);
  const DenseMatrix<float> a = dense<float>({.n = layout.size(), .seed = 3});
  EXPECT_TRUE(solves(a, answer(mesh, layout, a).x, right_hand_sides<float>(a.rows(), 3)));
}

template <Scalar T>
void expect_same_bits_of_large_system(double jitter) {
  const SlabLayout layout = SlabLayout::even(8192, 2, 1024);
  Mesh mesh = make_mesh(2);
  const DenseMatrix<T> a = dense<T>(
      {.kind = matgen::Kind::gaussian_plane, .n = layout.size(), .seed = 3, .jitter = jitter});
  std::optional<DenseMatrix<T>> first;
  for (int run = 0; run < 2; ++run) {
    const CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
    ASSERT_TRUE(factor.outcome.ok()) << factor.outcome.message();
    const RightHandSides<T> x = shard_rows(right_hand_sides<T>(a.rows(), 1), layout);
    const Outcome outcome = cholesky_solve(mesh, factor, x);
    ASSERT_TRUE(outcome.ok()) << outcome.message();
    EXPECT_LT(*outcome.backward_error, solve_gate * unit_roundoff<T>);
    if (first) {
      EXPECT_TRUE(same_bits(whole(x), *first));
    }
    first = whole(x);
  }
}

/// Large enough for the ring of copies, for batches, for cuBLASLt's algorithms and for the kernel
/// that solves long panels; nearly singular, for products with inverses.
TEST_F(CudaMesh, LargeSystem_PassesItsGateTwiceWithTheSameBits) {
  expect_same_bits_of_large_system<double>(1e-10);
  expect_same_bits_of_large_system<float>(1e-2);
}

TEST_F(CudaMesh, ManyCalls_TakeNoMoreMemory) {
  Mesh mesh = make_mesh(2);
  const SlabLayout layout = SlabLayout::even(200, 2, 32);
  const DenseMatrix<double> a = dense<double>({.n = layout.size(), .seed = 3});
  const DenseMatrix<double> b = right_hand_sides<double>(a.rows(), 2);
  std::int64_t before = 0;
  for (int call = 0; call < 300; ++call) {
    if (call == 20) {
      before = mesh.available_memory();
    }
    ASSERT_TRUE(solve(mesh, shard(a, layout), shard_rows(b, layout)).ok());
  }
  EXPECT_GE(mesh.available_memory(), before);
}

TEST_F(CudaMesh, MatrixOnTheHost_IsRefused) {
  Mesh mesh = make_mesh(1);
  const SlabLayout layout = SlabLayout::even(20, 1, 8);
  const ShardedMatrix<double> a(layout);
  EXPECT_TRUE(throws(ErrorKind::invalid_argument, [&] { cholesky_factor(mesh, a); }));
  const DenseMatrix<double> good = dense<double>({.n = 20});
  const CholeskyFactor<double> factor = cholesky_factor(mesh, shard(good, layout));
  const RightHandSides<double> b(layout, 1);
  EXPECT_TRUE(throws(ErrorKind::invalid_argument, [&] { cholesky_solve(mesh, factor, b); }));
  // and the mesh still works
  const RightHandSides<double> x = shard_rows(right_hand_sides<double>(20, 1), layout);
  EXPECT_TRUE(cholesky_solve(mesh, factor, x).ok());
}

TEST_F(CudaMesh, BadGpus_AreRefused) {
  EXPECT_TRUE(throws(ErrorKind::invalid_argument, [] { Mesh::cuda({}); }));
  EXPECT_TRUE(throws(ErrorKind::invalid_argument, [] { Mesh::cuda({0, 0}); }));
  EXPECT_TRUE(throws(ErrorKind::device, [] { Mesh::cuda({0, 99}); }));
  EXPECT_TRUE(throws(ErrorKind::device, [] { Mesh::cuda({-1}); }));
}

TEST_F(CudaMesh, TooLargeATile_IsRefused) {
  Mesh mesh = make_mesh(1);
  const SlabLayout layout = SlabLayout::even(3000, 1, 2000);
  const ShardedMatrix<double> a = make_matrix<double>(mesh, layout);
  EXPECT_TRUE(throws(ErrorKind::invalid_argument, [&] { cholesky_factor(mesh, a); }));
}

TEST_F(CudaMesh, TooLargeAMatrix_IsRefusedWithFigures) {
  Mesh mesh = make_mesh(1);
  EXPECT_TRUE(throws(ErrorKind::out_of_memory,
                     [&] { make_matrix<double>(mesh, SlabLayout::even(400000, 1, 512)); }));
}

TEST_F(CudaMesh, FactorOnAGpu_IsSavedFromACopyOnTheHost) {
  Mesh mesh = make_mesh(2);
  const SlabLayout layout = SlabLayout::even(50, 2, 8);
  const DenseMatrix<double> a = dense<double>({.n = 50, .seed = 3});
  CholeskyFactor<double> factor = cholesky_factor(mesh, shard(a, layout));
  const TemporaryDirectory directory;
  const std::string path = directory / "factor";
  EXPECT_TRUE(throws(ErrorKind::invalid_argument, [&] { save_factor(factor, path); }));
  factor.slabs = to_host(factor.slabs);
  save_factor(factor, path);
  CholeskyFactor<double> loaded = load_factor<double>(path);
  loaded.slabs = to_devices(loaded.slabs);
  const DenseMatrix<double> b = right_hand_sides<double>(50, 2);
  const RightHandSides<double> x = shard_rows(b, layout);
  EXPECT_TRUE(cholesky_solve(mesh, loaded, x).ok());
  EXPECT_TRUE(solves(a, whole(x), b));
}

}  // namespace
}  // namespace shardsolve::testing
