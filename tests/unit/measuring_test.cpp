// When tune keeps a tile, and what bench shows of an answer that is wrong.

#include "cli/bench/bench_report.hpp"
#include "cli/bench/cholesky.hpp"
#include "cli/bench/eigh.hpp"
#include "cli/bench/judge.hpp"
#include "cli/bench/system.hpp"
#include "cli/bench/tune_report.hpp"
#include "cli/bench/tuning.hpp"
#include "support/dtypes.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/eigh.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <complex>
#include <limits>
#include <thread>

namespace shardsolve::cli::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Tuned tuned(Samples shipped, Samples best) {
  return {.n = 1000,
          .shipped_tile = 384,
          .best_tile = 256,
          .shipped = std::move(shipped),
          .best = std::move(best),
          .backward_error = 0.3};
}

TEST(Samples, LeastMedianNoise) {
  const Samples odd{{3.0, 2.0, 5.0}};
  EXPECT_EQ(odd.least(), 2.0);
  EXPECT_EQ(odd.median(), 3.0);
  EXPECT_EQ(odd.noise(), 0.5);
  EXPECT_EQ((Samples{{1.0, 2.0}}).median(), 1.5);
}

TEST(Tuned, FasterThanTheNoise_IsKept) {
  EXPECT_TRUE(tuned({{1.00, 1.01, 1.02}}, {{0.90, 0.91, 0.92}}).kept());
}

TEST(Tuned, NoFasterThanTheNoise_IsNotKept) {
  EXPECT_FALSE(tuned({{1.00, 1.20, 1.30}}, {{0.90, 0.91, 0.92}}).kept());
  EXPECT_FALSE(tuned({{1.00, 1.01, 1.02}}, {{0.90, 1.10, 1.20}}).kept());
  EXPECT_FALSE(tuned({{1.0, 1.0, 1.0}}, {{0.995, 0.995, 0.995}}).kept());
}

TEST(Tuned, WrongAnswer_IsNotKept) {
  Tuned wrong = tuned({{1.0, 1.0, 1.0}}, {{0.5, 0.5, 0.5}});
  wrong.backward_error = 11.0;
  EXPECT_FALSE(wrong.kept());
  wrong.backward_error = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(wrong.kept());
}

TEST(CandidateTiles, BeginWithTheShippedOne_AndDiffer) {
  const Mesh mesh = Mesh::host(2);
  auto tiles = candidate_tiles(mesh, 4000, Dtype::float64, Routine::cholesky);
  EXPECT_EQ(tiles.front(), mesh.default_tile(4000, Dtype::float64));
  EXPECT_GT(tiles.size(), 4U);
  std::sort(tiles.begin(), tiles.end());
  EXPECT_EQ(std::adjacent_find(tiles.begin(), tiles.end()), tiles.end());
  EXPECT_EQ(candidate_tiles(mesh, 2, Dtype::float64, Routine::lu), std::vector<std::int64_t>{1});
}

TEST(Tune, Budget_LeavesOutWhatItDoesNotCover) {
  Mesh mesh = Mesh::host(2);
  const TuneLimits over{.end = std::chrono::steady_clock::now(), .progress = [](auto, auto) {}};
  const Tuned left_out = tune<double>(mesh, Routine::cholesky, 300, {}, over);
  EXPECT_THAT(left_out.left_out, HasSubstr("--budget"));
  EXPECT_FALSE(left_out.kept());
}

TEST(Tune, BudgetThatTheFirstRunsUseUp_IsSaidToBe) {
  Mesh mesh = Mesh::host(2);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  const TuneLimits limits{.end = end,
                          .progress = [end](auto, auto) { std::this_thread::sleep_until(end); }};
  const Tuned left_out = tune<double>(mesh, Routine::cholesky, 300, {}, limits);
  EXPECT_THAT(left_out.left_out, HasSubstr("the first runs have used up the budget"));
  EXPECT_THAT(left_out.left_out, HasSubstr("--budget"));
  EXPECT_THAT(left_out.left_out, Not(HasSubstr("s are left")));
}

TEST(Tune, MeasuresBothTilesInTurn) {
  for (const Routine routine : {Routine::cholesky, Routine::lu}) {
    Mesh mesh = Mesh::host(2);
    const TuneLimits limits{.end = std::chrono::steady_clock::now() + std::chrono::minutes(1),
                            .progress = [](auto, auto) {}};
    const Tuned result = tune<std::complex<float>>(mesh, routine, 300, {}, limits);
    EXPECT_EQ(result.left_out, "");
    EXPECT_EQ(result.routine, routine);
    EXPECT_EQ(result.shipped_tile, mesh.default_tile(300, Dtype::complex64));
    EXPECT_NE(result.best_tile, result.shipped_tile);
    EXPECT_EQ(result.shipped.seconds.size(), 5U);
    EXPECT_EQ(result.best.seconds.size(), 5U);
    EXPECT_LT(result.backward_error, 10.0);
  }
}

template <class T>
class Judge : public ::testing::Test {};
TYPED_TEST_SUITE(Judge, shardsolve::testing::Dtypes, shardsolve::testing::DtypeNames);

TYPED_TEST(Judge, RightAnswersPass_WrongOnesDoNot) {
  using T = TypeParam;
  Mesh mesh = Mesh::host(3);
  System<T> system(mesh, 130, 5, {});
  const T wrong = T(static_cast<RealOf<T>>(1.001));

  auto factor = cholesky_factor(mesh, system.fresh_matrix(16));
  ASSERT_TRUE(factor.outcome.ok());
  const auto judge_l = [&](double logdet) {
    return judge_factor(mesh, {}, system.a(), factor.slabs, logdet);
  };
  const double logdet = log_determinant(factor);
  EXPECT_TRUE(judge_l(logdet)[0].passed()) << judge_l(logdet)[0].value;
  EXPECT_TRUE(judge_l(logdet)[1].passed()) << judge_l(logdet)[1].value;
  EXPECT_FALSE(judge_l(logdet + 1e-9 * std::abs(logdet))[1].passed());

  const auto x = system.fresh_sides(16, 5);
  ASSERT_TRUE(cholesky_solve(mesh, factor, x).ok());
  EXPECT_TRUE(judge_solution(mesh, {}, system.a(), x).passed());
  x.block(2)(7, 4) *= wrong;
  EXPECT_FALSE(judge_solution(mesh, {}, system.a(), x).passed());

  const MatrixView<T> slab = factor.slabs.slab(0);
  slab(0, 0) *= wrong;
  EXPECT_FALSE(judge_l(logdet)[0].passed());
  slab(0, 0) /= wrong;

  const ShardedMatrix<T> inverse = factor.slabs;
  ASSERT_TRUE(cholesky_inverse(mesh, std::move(factor)).ok());
  EXPECT_TRUE(judge_inverse(mesh, {}, system.a(), inverse).passed());
  inverse.slab(1)(60, 10) *= wrong;
  inverse.slab(1)(54, 10) += T(static_cast<RealOf<T>>(0.001));
  EXPECT_FALSE(judge_inverse(mesh, {}, system.a(), inverse).passed());
}

TYPED_TEST(Judge, RightLuFactorPasses_WrongOnesDoNot) {
  using T = TypeParam;
  Mesh mesh = Mesh::host(3);
  System<T> system(mesh, 130, 5, {}, matgen::Kind::general);
  LuFactor<T> factor = lu_factor(mesh, system.matrix(16), system.fresh_matrix(16));
  ASSERT_TRUE(factor.outcome.ok());
  const auto judge = [&] { return judge_lu(mesh, {}, system.a(), factor); };
  EXPECT_TRUE(judge()[0].passed()) << judge()[0].value;
  EXPECT_TRUE(judge()[1].passed()) << judge()[1].value;

  factor.log_modulus *= 1.0 + 1e-9;
  EXPECT_FALSE(judge()[1].passed());
  const T wrong = T(static_cast<RealOf<T>>(0.01));
  for (const std::int64_t row : {0, 129}) {  // of U, of L
    factor.slabs.slab(1)(row, 3) += wrong;
    EXPECT_FALSE(judge()[0].passed()) << row;
    factor.slabs.slab(1)(row, 3) -= wrong;
  }
  EXPECT_TRUE(judge()[0].passed());
  std::swap(factor.rows->at(4), factor.rows->at(90));
  EXPECT_FALSE(judge()[0].passed());
  std::swap(factor.rows->at(4), factor.rows->at(90));

  const auto x = system.fresh_sides(16, 5);
  ASSERT_TRUE(lu_solve(mesh, factor, x).ok());
  EXPECT_TRUE(judge_solution(mesh, {}, system.a(), x).passed());
}

TYPED_TEST(Judge, RightEigenpairsPass_WrongOnesDoNot) {
  using T = TypeParam;
  Mesh mesh = Mesh::host(3);
  System<T> system(mesh, 130, 1, {}, matgen::Kind::hermitian);
  const ShardedMatrix<T> z = system.fresh_matrix(16);
  const Eigenvalues<T> found = eigh(mesh, z, {.indices = EighRequest::Indices{20, 130}});
  ASSERT_TRUE(found.outcome.ok());
  const auto judge = [&](const std::vector<RealOf<T>>& values) {
    return judge_eigenpairs(mesh, {}, system.a(), z, values);
  };
  EXPECT_TRUE(judge(found.values)[0].passed()) << judge(found.values)[0].value;
  EXPECT_TRUE(judge(found.values)[1].passed()) << judge(found.values)[1].value;
  EXPECT_TRUE(judge_eigenvalues(mesh, {}, system.a(), found.values, found.values).passed());

  std::vector<RealOf<T>> wrong = found.values;
  wrong[70] += static_cast<RealOf<T>>(0.01);
  EXPECT_FALSE(judge(wrong)[0].passed());
  EXPECT_TRUE(judge(wrong)[1].passed());
  EXPECT_FALSE(judge_eigenvalues(mesh, {}, system.a(), wrong, found.values).passed());
  wrong[70] = std::numeric_limits<RealOf<T>>::quiet_NaN();
  EXPECT_FALSE(judge_eigenvalues(mesh, {}, system.a(), wrong, found.values).passed());

  // Still an eigenvector, but no longer of norm 1.
  for (std::int64_t i = 0; i < 130; ++i) {
    z.slab(1)(i, 3) *= T(static_cast<RealOf<T>>(1.001));
  }
  EXPECT_FALSE(judge(found.values)[1].passed());
}

TEST(BenchReport, AnswerThatMissesItsGate_HasNoSpeed) {
  const Timing good{.job = "factor",
                    .what = "factor",
                    .samples = {{0.5, 0.75}},
                    .flops = 1e9,
                    .bytes = 1000000000,
                    .gates = {{"factor", 0.5, 30.0}}};
  Timing bad = good;
  bad.job = "inverse";
  bad.what = "inverse";
  bad.gates = {{"inverse", 0.5, 30.0}, {"certificate", std::nan(""), 30.0}};
  const BenchResult result{.gemm = 4e9, .timings = {good, bad}};
  const BenchSubject subject{.job = "cholesky",
                             .title = "Cholesky",
                             .n = 1000,
                             .backend = "cpu",
                             .devices = 2,
                             .device = "a CPU",
                             .tile = 64,
                             .tile_text = "64",
                             .tile_origin = "library"};
  EXPECT_FALSE(result.passed());
  const std::string text = text_of(subject, result);
  EXPECT_THAT(text, HasSubstr("500 ms"));
  EXPECT_THAT(text, HasSubstr("0.5 u < 30      1 GB"));
  EXPECT_THAT(text, HasSubstr("2.0     50 %"));
  EXPECT_THAT(text, HasSubstr("inverse                     no speed: certificate nan u"));
  const auto json = nlohmann::json::parse(json_of(subject, result));
  EXPECT_EQ(json["status"], "gate_missed");
  EXPECT_EQ(json["timings"][0]["gflops"], 2.0);
  EXPECT_EQ(json["timings"][0]["median_seconds"], 0.625);
  for (const char* key : {"seconds", "median_seconds", "gflops", "all_seconds"}) {
    EXPECT_TRUE(json["timings"][1][key].is_null()) << key;
  }
}

TEST(BenchCholesky, EveryCall_PassesItsGates) {
  Mesh mesh = Mesh::host(2);
  const auto silent = [](const std::string&, double) {};
  const BenchResult result = bench_cholesky<float>(mesh, 200, 32, 1, {}, silent);
  EXPECT_TRUE(result.passed());
  EXPECT_EQ(result.timings.size(), 5U);
  EXPECT_GT(result.gemm, 0.0);
  EXPECT_TRUE(time_lapack<double>(200, 1, {}, silent).passed());
}

TEST(BenchEigh, EveryCall_PassesItsGates) {
  Mesh mesh = Mesh::host(2);
  const auto silent = [](const std::string&, double) {};
  const BenchResult result = bench_eigh<std::complex<float>>(mesh, 100, 1, {}, silent);
  EXPECT_TRUE(result.passed());
  EXPECT_EQ(result.timings.size(), 3U);
  EXPECT_TRUE(time_lapack_eigh<std::complex<double>>(100, 1, {}, silent).passed());
  EXPECT_TRUE(time_lapack_eigh<float>(100, 1, {}, silent).passed());
}

}  // namespace
}  // namespace shardsolve::cli::bench
