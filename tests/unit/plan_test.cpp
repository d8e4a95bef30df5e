#include "tests/support/thrown.hpp"

#include <shardsolve/error.hpp>
#include <shardsolve/plan.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace shardsolve {
namespace {

using ::testing::HasSubstr;

constexpr Dtype dtypes[] = {Dtype::float32, Dtype::float64, Dtype::complex64, Dtype::complex128};

TEST(Plan, Factor_NeedsThreePanelsAndWhatGpusKeepOfTwoTiles) {
  const SlabLayout layout = SlabLayout::even(4096, 4, 128);
  for (const Dtype dtype : dtypes) {
    const Plan plan = plan_cholesky_factor(layout, dtype);
    const std::int64_t panel = (4096 - 128) * 128 * element_size(dtype);
    const std::int64_t tile_scratch = 2 * 128 * 256 * element_size(dtype);
    EXPECT_EQ(plan.ranks, 4);
    EXPECT_EQ(plan.tile, 128);
    EXPECT_EQ(plan.matrix_bytes, 4096 * 1024 * element_size(dtype));
    EXPECT_EQ(plan.right_hand_side_bytes, 0);
    EXPECT_GE(plan.workspace_bytes, 3 * panel + tile_scratch);
    EXPECT_LE(plan.workspace_bytes, 3 * (panel + 16 * 4096) + tile_scratch + 4096);
    EXPECT_EQ(plan.bytes(), plan.matrix_bytes + plan.workspace_bytes);
  }
}

TEST(Plan, LuFactor_NeedsFourPanelsAndASecondMatrix) {
  const SlabLayout layout = SlabLayout::even(4096, 4, 128);
  for (const Dtype dtype : dtypes) {
    const Plan plan = plan_lu_factor(layout, dtype);
    const std::int64_t panel = 4096 * 128 * element_size(dtype);
    const bool splits = dtype == Dtype::float32 || dtype == Dtype::complex64;
    const std::int64_t split = splits ? (4096 + 1024) * 132 * element_size(dtype) : 0;
    EXPECT_EQ(plan.matrix_bytes, 2 * 4096 * 1024 * element_size(dtype));
    EXPECT_GE(plan.workspace_bytes, 4 * panel + split - 128 * 128 * element_size(dtype));
    EXPECT_LE(plan.workspace_bytes, 4 * panel + split + 200 * 4096);
    const Plan alone = plan_lu_factor(SlabLayout::even(4096, 1, 128), dtype);
    EXPECT_LT(alone.workspace_bytes, panel + 2 * split + 200 * 4096);
    EXPECT_DOUBLE_EQ(plan.flops, 2.0 * plan_cholesky_factor(layout, dtype).flops);
    EXPECT_GT(plan_lu_solve(layout, dtype, 9).workspace_bytes,
              plan_lu_solve(layout, dtype, 1).workspace_bytes);
  }
}

TEST(Plan, LuInverse_NeedsThreePanelsAndTwoOfASlabsWidth) {
  const SlabLayout layout = SlabLayout::even(4096, 4, 128);
  for (const Dtype dtype : dtypes) {
    const Plan plan = plan_lu_inverse(layout, dtype);
    const std::int64_t panels = (3 * 4096 + 2 * 1024) * 128 * element_size(dtype);
    EXPECT_EQ(plan.matrix_bytes, 2 * 4096 * 1024 * element_size(dtype));
    EXPECT_GE(plan.workspace_bytes, panels);
    EXPECT_LE(plan.workspace_bytes, panels + 200 * 4096);
    EXPECT_DOUBLE_EQ(plan.flops, 2.0 * plan_lu_factor(layout, dtype).flops);
    const Plan in_place = plan_lu_inverse_in_place(layout, dtype);
    EXPECT_EQ(in_place.matrix_bytes, (4096 + 16) * 1024 * element_size(dtype));
    EXPECT_EQ(in_place.workspace_bytes, plan.workspace_bytes);
    EXPECT_EQ(plan_lu_inverse(SlabLayout::even(4096, 1, 128), dtype).bytes_moved, 0.0);
  }
}

TEST(Plan, LeastSquares_NeedsItsRowsOfQAndNumbersInDoublePrecision) {
  const SlabLayout layout = SlabLayout::even(100000, 4, 128);
  for (const Dtype dtype : dtypes) {
    const Plan plan = plan_qr(layout, dtype, 100);
    EXPECT_EQ(plan.matrix_bytes, 25000 * 100 * element_size(dtype));
    EXPECT_GE(plan.workspace_bytes, plan.matrix_bytes);
    EXPECT_LE(plan.workspace_bytes, 2 * plan.matrix_bytes + 3000000);
    const Plan solve = plan_least_squares(layout, dtype, 100, 3);
    EXPECT_EQ(solve.right_hand_side_bytes, 25000 * 3 * element_size(dtype));
    EXPECT_GE(solve.workspace_bytes, plan.matrix_bytes);
    EXPECT_LE(solve.workspace_bytes, 2 * plan.matrix_bytes + 30000000);
    // n^2 numbers that do not fit are in it, before any work
    EXPECT_GT(plan_least_squares(layout, dtype, 90000, 1).workspace_bytes,
              std::int64_t{90000} * 90000 * 8 * 8);
    testing::expect_error([&] { plan_least_squares(layout, dtype, 100, -1); },
                          ErrorKind::invalid_argument, {"-1"});
  }
}

TEST(Plan, SingularValues_NeedSlabsOfEachRankAndNoMore) {
  for (const Dtype dtype : dtypes) {
    const std::int64_t n = 8192;
    const SlabLayout layout = SlabLayout::even(n, 4, 128);
    const Plan vectors = plan_svd(layout, dtype, n, true);
    const std::int64_t slab = n * n / 4 * element_size(dtype);
    EXPECT_EQ(vectors.matrix_bytes, slab);
    EXPECT_GE(vectors.workspace_bytes, 5 * slab);
    EXPECT_LE(vectors.workspace_bytes, 11 * slab);
    EXPECT_LE(plan_svd(layout, dtype, n, false).workspace_bytes, vectors.workspace_bytes);
    EXPECT_GT(vectors.flops, plan_polar(layout, dtype, n).flops);
    // A tall matrix has QR's R in double precision; A^H takes memory of its own.
    EXPECT_GT(plan_svd(layout, dtype, 1000, true).workspace_bytes,
              plan_qr(layout, dtype, 1000).workspace_bytes);
    EXPECT_GT(plan_svd(layout, dtype, 2 * n, true).workspace_bytes, vectors.workspace_bytes);
    testing::expect_error([&] { plan_svd(layout, dtype, -1, true); }, ErrorKind::invalid_argument,
                          {"-1"});
  }
}

TEST(Plan, UnevenSlabs_CountTheWidest) {
  const Plan plan = plan_cholesky_solve(SlabLayout({0, 700, 700, 1000}, 64), Dtype::float64, 3);
  EXPECT_EQ(plan.matrix_bytes, 1000 * 700 * 8);
  EXPECT_EQ(plan.right_hand_side_bytes, 700 * 3 * 8);
}

TEST(Plan, Flops_AreThoseOfTheTextbook) {
  const SlabLayout layout = SlabLayout::even(1000, 4, 64);
  constexpr double cube = 1e9;
  EXPECT_DOUBLE_EQ(plan_cholesky_factor(layout, Dtype::float64).flops, cube / 3.0);
  EXPECT_DOUBLE_EQ(plan_cholesky_factor(layout, Dtype::complex64).flops, 4.0 * cube / 3.0);
  EXPECT_DOUBLE_EQ(plan_cholesky_inverse(layout, Dtype::float32).flops, 2.0 * cube / 3.0);
}

TEST(Plan, OneRank_MovesNothing) {
  const SlabLayout layout = SlabLayout::even(100, 1, 8);
  EXPECT_EQ(plan_cholesky_factor(layout, Dtype::float64).bytes_moved, 0.0);
  EXPECT_EQ(plan_cholesky_solve(layout, Dtype::float64, 2).bytes_moved, 0.0);
  EXPECT_EQ(plan_cholesky_half(layout, Dtype::float64, 2).bytes_moved, 0.0);
  EXPECT_EQ(plan_cholesky_inverse(layout, Dtype::float64).bytes_moved, 0.0);
}

/// The sizes of section 6 of the design, and far beyond: nothing wraps around.
TEST(Plan, HugeMatrix_HasPositiveFigures) {
  const SlabLayout layout = SlabLayout::even(std::int64_t{1} << 21, 64, 4096);
  for (const Dtype dtype : dtypes) {
    for (const Plan& plan :
         {plan_cholesky_factor(layout, dtype), plan_cholesky_solve(layout, dtype, 1 << 16),
          plan_cholesky_half(layout, dtype, 1 << 16), plan_cholesky_inverse(layout, dtype)}) {
      EXPECT_GT(plan.matrix_bytes, 0);
      EXPECT_GT(plan.workspace_bytes, 0);
      EXPECT_GT(plan.bytes(), plan.matrix_bytes);
    }
  }
}

TEST(Plan, EmptyMatrix_IsPlannedToo) {
  const SlabLayout layout = SlabLayout::even(0, 3, 8);
  EXPECT_EQ(plan_cholesky_factor(layout, Dtype::float64).matrix_bytes, 0);
  EXPECT_EQ(plan_cholesky_solve(layout, Dtype::float64, 0).right_hand_side_bytes, 0);
  EXPECT_EQ(plan_cholesky_half(layout, Dtype::float64, 0).right_hand_side_bytes, 0);
}

TEST(PlanRequire, TooMuch_ThrowsBothFigures) {
  const Plan plan = plan_cholesky_factor(SlabLayout::even(100, 4, 8), Dtype::float64);
  const auto error =
      testing::thrown_by([&] { plan.require(143'000'000'000, 139'000'000'000, "the job"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::out_of_memory);
  for (const char* word : {"the job", "143.00 GB", "139.00 GB", "4 devices", "smaller tile"}) {
    EXPECT_THAT(error->what(), HasSubstr(word));
  }
}

TEST(PlanRequire, WhatFits_IsAccepted) {
  const Plan plan = plan_cholesky_factor(SlabLayout::even(100, 4, 8), Dtype::float64);
  EXPECT_NO_THROW(plan.require(139, 139, "the job"));
  EXPECT_NO_THROW(plan.require(0, 0, "the job"));
}

TEST(DefaultTile, IsAPureFunctionWithinItsBounds) {
  for (const std::int64_t n : {0L, 1L, 63L, 1000L, 4096L, 8192L, 131072L, 10'000'000L}) {
    for (const std::int64_t ranks : {1, 2, 4, 64}) {
      const std::int64_t tile = default_tile(n, ranks, Dtype::float64);
      EXPECT_GE(tile, 1);
      EXPECT_LE(tile, 1024);
      EXPECT_EQ(tile, default_tile(n, ranks, Dtype::float64));
    }
  }
}

TEST(AvailableHostMemory, IsPositiveAndBelowAPetabyte) {
  EXPECT_GT(available_host_memory(), 0);
  EXPECT_LT(available_host_memory(), std::int64_t{1} << 50);
}

}  // namespace
}  // namespace shardsolve
