// Ranks that are processes give the same bits as ranks that are threads.

#include "mpi/processes.hpp"
#include "support/bits.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/jobs.hpp"
#include "support/matrix_zoo.hpp"

#include <shardsolve/cholesky.hpp>
#include <shardsolve/eigh.hpp>
#include <shardsolve/lu.hpp>
#include <shardsolve/qr.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

/// What one rank sees of everything that one problem gives.
template <Scalar T>
struct Share {
  DenseMatrix<T> factor;
  DenseMatrix<T> x;
  DenseMatrix<T> halves;  // of x: each kind in turn
  DenseMatrix<T> inverse;
  std::vector<RealOf<T>> diagonal;
  std::vector<double> numbers;  // certificates and the like
  std::vector<double> flops;
};

template <Scalar T>
Share<T> solve_all(Mesh& mesh, const ShardedMatrix<T>& a, const RightHandSides<T>& b,
                   std::int64_t rank) {
  CholeskyFactor<T> factor = cholesky_factor(mesh, a);
  EXPECT_TRUE(factor.outcome.ok()) << factor.outcome.message();
  const DenseMatrix<T> l = copy_of(factor.slabs.slab(rank));
  const std::vector<RealOf<T>> diagonal = *factor.diagonal;
  const Scaled norm = factor.norm;
  const Outcome solved = cholesky_solve(mesh, factor, b);
  const double rcond = condition_estimate(mesh, factor);
  const double determinant = log_determinant(factor);
  const double factor_flops = factor.outcome.flops;
  const DenseMatrix<T> x = copy_of(b.block(rank));
  for (const Half half :
       {Half::solve, Half::multiply_adjoint, Half::multiply, Half::solve_adjoint}) {
    EXPECT_TRUE(cholesky_half(mesh, factor, b, half).ok());
  }
  const Outcome inverted = cholesky_inverse(mesh, std::move(factor));
  return {l,
          x,
          copy_of(b.block(rank)),
          copy_of(a.slab(rank)),
          diagonal,
          {norm.value(), solved.backward_error.value_or(-1), rcond, determinant,
           inverted.backward_error.value_or(-1), inverted.rcond.value_or(-1)},
          {factor_flops, solved.flops, inverted.flops}};
}

template <class T>
class ProcessAnswers : public ::testing::Test {};
TYPED_TEST_SUITE(ProcessAnswers, Dtypes, DtypeNames);

TYPED_TEST(ProcessAnswers, EveryCut_GivesTheBitsOfThreads) {
  using T = TypeParam;
  Mesh processes = make_process_mesh();
  Mesh threads = Mesh::host(processes.ranks());
  const std::int64_t rank = own_rank(processes);
  std::int64_t compared = 0;
  for (const Cut& cut : cuts()) {
    const SlabLayout& layout = cut.layout;
    if (layout.ranks() != processes.ranks()) {
      continue;
    }
    ++compared;
    SCOPED_TRACE(cut.name + " on rank " + std::to_string(rank));
    const DenseMatrix<T> a = dense<T>({.n = layout.size(), .seed = 3});
    const DenseMatrix<T> b = right_hand_sides<T>(layout.size(), 9);
    const Share<T> ours = solve_all<T>(processes, share_of(processes, a, layout),
                                       share_of_rows(processes, b, layout), rank);
    const Share<T> theirs = solve_all<T>(threads, shard(a, layout), shard_rows(b, layout), rank);
    EXPECT_TRUE(same_bits(ours.factor, theirs.factor));
    EXPECT_TRUE(same_bits(ours.x, theirs.x));
    EXPECT_TRUE(same_bits(ours.halves, theirs.halves));
    EXPECT_TRUE(same_bits(ours.inverse, theirs.inverse));
    EXPECT_EQ(ours.diagonal, theirs.diagonal);
    EXPECT_EQ(ours.numbers, theirs.numbers);
    EXPECT_EQ(ours.flops, theirs.flops);
  }
  EXPECT_GT(compared, 0);
}

/// Messages that MPI does not send at once but by rendezvous.
TEST(ProcessAnswersLarge, SeveralTilesOfSomeSize_GiveTheBitsOfThreads) {
  Mesh processes = make_process_mesh();
  Mesh threads = Mesh::host(processes.ranks());
  const SlabLayout layout = SlabLayout::even(700, processes.ranks(), 64);
  const DenseMatrix<double> a = dense<double>({.n = layout.size(), .seed = 5});
  const DenseMatrix<double> b = right_hand_sides<double>(layout.size(), 70);
  const std::int64_t rank = own_rank(processes);
  const auto ours = solve_all<double>(processes, share_of(processes, a, layout),
                                      share_of_rows(processes, b, layout), rank);
  const auto theirs = solve_all<double>(threads, shard(a, layout), shard_rows(b, layout), rank);
  EXPECT_TRUE(same_bits(ours.factor, theirs.factor));
  EXPECT_TRUE(same_bits(ours.x, theirs.x));
  EXPECT_TRUE(same_bits(ours.inverse, theirs.inverse));
  EXPECT_EQ(ours.numbers, theirs.numbers);
}

TEST(ProcessAnswersOfJobs, EachFamily_GivesTheBitsOfThreads) {
  Mesh processes = make_process_mesh();
  Mesh threads = Mesh::host(processes.ranks());
  for (const Job& job : jobs()) {
    SCOPED_TRACE(job.name);
    EXPECT_TRUE(same_bits(job.run(processes, {}), job.run(threads, {})));
  }
}

TYPED_TEST(ProcessAnswers, Eigenpairs_HaveTheBitsOfThreads) {
  using T = TypeParam;
  Mesh processes = make_process_mesh();
  Mesh threads = Mesh::host(processes.ranks());
  const std::int64_t rank = own_rank(processes);
  const SlabLayout layout = SlabLayout::even(90, processes.ranks(), 90);
  const DenseMatrix<T> a = dense<T>({.n = layout.size(), .seed = 3});
  for (const EighRequest& request :
       {EighRequest{}, EighRequest{.indices = EighRequest::Indices{3, 40}},
        EighRequest{.vectors = false}}) {
    const ShardedMatrix<T> ours = share_of(processes, a, layout);
    const ShardedMatrix<T> theirs = shard(a, layout);
    const Eigenvalues<T> found = eigh(processes, ours, request);
    const Eigenvalues<T> expected = eigh(threads, theirs, request);
    ASSERT_TRUE(found.outcome.ok()) << found.outcome.message();
    EXPECT_EQ(found.values, expected.values);
    EXPECT_EQ(found.outcome.residual, expected.outcome.residual);
    EXPECT_EQ(found.outcome.orthogonality, expected.outcome.orthogonality);
    if (request.vectors) {
      EXPECT_TRUE(same_bits(copy_of(ours.slab(rank)), copy_of(theirs.slab(rank))));
    }
  }
}

TYPED_TEST(ProcessAnswers, QrAndLeastSquares_HaveTheBitsOfThreads) {
  using T = TypeParam;
  Mesh processes = make_process_mesh();
  Mesh threads = Mesh::host(processes.ranks());
  const std::int64_t rank = own_rank(processes);
  for (const Cut& cut : cuts()) {
    const SlabLayout& layout = cut.layout;
    const std::int64_t m = layout.size();
    if (layout.ranks() != processes.ranks() || m < 7) {
      continue;
    }
    SCOPED_TRACE(cut.name + " on rank " + std::to_string(rank));
    const DenseMatrix<T> b = right_hand_sides<T>(m, 3);
    for (const std::int64_t columns : {std::int64_t{5}, m + 20}) {
      const DenseMatrix<T> a = right_hand_sides<T>(m, columns, 5);
      const auto same = [&](auto solve) {
        const LeastSquares<T> found = solve(processes, share_of_rows(processes, a, layout),
                                            share_of_rows(processes, b, layout));
        const LeastSquares<T> expected =
            solve(threads, shard_rows(a, layout), shard_rows(b, layout));
        ASSERT_TRUE(found.outcome.ok()) << found.outcome.message();
        EXPECT_EQ(found.x, expected.x);
        EXPECT_EQ(found.residuals, expected.residuals);
        EXPECT_EQ(found.singular_values, expected.singular_values);
        EXPECT_EQ(found.outcome.backward_error, expected.outcome.backward_error);
      };
      same([](Mesh& mesh, const RowBlocks<T>& a, const RowBlocks<T>& b) {
        return least_squares(mesh, a, b);
      });
      same([](Mesh& mesh, const RowBlocks<T>& a, const RowBlocks<T>& b) {
        return lstsq(mesh, a, b);
      });
      same([](Mesh& mesh, const RowBlocks<T>& a, const RowBlocks<T>& b) {
        return ridge(mesh, a, b, 0.1);
      });
    }
    for (const std::int64_t columns : {std::int64_t{3}, m - 1}) {
      const DenseMatrix<T> a = right_hand_sides<T>(m, columns, 5);
      const RowBlocks<T> ours = share_of_rows(processes, a, layout);
      const RowBlocks<T> theirs = shard_rows(a, layout);
      EXPECT_EQ(qr(processes, ours).r, qr(threads, theirs).r);
      EXPECT_TRUE(same_bits(copy_of(ours.block(rank)), copy_of(theirs.block(rank))));
    }
  }
}

TYPED_TEST(ProcessAnswers, LuOfEveryCut_HasTheBitsOfThreads) {
  using T = TypeParam;
  Mesh processes = make_process_mesh();
  Mesh threads = Mesh::host(processes.ranks());
  const std::int64_t rank = own_rank(processes);
  for (const Cut& cut : cuts()) {
    const SlabLayout& layout = cut.layout;
    if (layout.ranks() != processes.ranks()) {
      continue;
    }
    SCOPED_TRACE(cut.name + " on rank " + std::to_string(rank));
    const DenseMatrix<T> a = right_hand_sides<T>(layout.size(), layout.size(), 5);
    const DenseMatrix<T> b = right_hand_sides<T>(layout.size(), 9);
    const LuFactor<T> ours = lu_factor(processes, share_of(processes, a, layout));
    const LuFactor<T> theirs = lu_factor(threads, shard(a, layout));
    ASSERT_TRUE(ours.outcome.ok()) << ours.outcome.message();
    EXPECT_TRUE(same_bits(copy_of(ours.slabs.slab(rank)), copy_of(theirs.slabs.slab(rank))));
    EXPECT_EQ(*ours.rows, *theirs.rows);
    EXPECT_EQ(ours.sign, theirs.sign);
    EXPECT_EQ(ours.log_modulus, theirs.log_modulus);
    EXPECT_EQ(condition_estimate(processes, ours), condition_estimate(threads, theirs));
    for (const Transpose transpose : {Transpose::none, Transpose::transpose, Transpose::adjoint}) {
      const RightHandSides<T> x = share_of_rows(processes, b, layout);
      const RightHandSides<T> y = shard_rows(b, layout);
      const Outcome solved = lu_solve(processes, ours, x, {}, transpose);
      const Outcome expected = lu_solve(threads, theirs, y, {}, transpose);
      ASSERT_TRUE(solved.ok()) << solved.message();
      EXPECT_EQ(solved.backward_error, expected.backward_error);
      EXPECT_EQ(solved.component_error, expected.component_error);
      EXPECT_TRUE(same_bits(copy_of(x.block(rank)), copy_of(y.block(rank))));
    }
  }
}

TEST(ProcessOutcomes, MatrixThatIsNotDefinite_HasTheSameReasonInAllProcesses) {
  Mesh mesh = make_process_mesh();
  const SlabLayout layout = SlabLayout::even(50, mesh.ranks(), 8);
  DenseMatrix<double> a = dense<double>({.n = layout.size(), .seed = 3});
  a(37, 37) = -1.0;
  const CholeskyFactor<double> factor = cholesky_factor(mesh, share_of(mesh, a, layout));
  EXPECT_EQ(factor.outcome.status, Status::not_positive_definite);
  Mesh threads = Mesh::host(mesh.ranks());
  const CholeskyFactor<double> expected = cholesky_factor(threads, shard(a, layout));
  ASSERT_TRUE(factor.outcome.location.has_value());
  EXPECT_EQ(factor.outcome.location->row, expected.outcome.location->row);
}

TEST(ProcessOutcomes, EntryThatIsNaNOnOneRank_IsNamedInAllProcesses) {
  Mesh mesh = make_process_mesh();
  const SlabLayout layout = SlabLayout::even(50, mesh.ranks(), 8);
  DenseMatrix<double> a = dense<double>({.n = layout.size(), .seed = 3});
  a(3, 49) = std::numeric_limits<double>::quiet_NaN();
  const CholeskyFactor<double> factor = cholesky_factor(mesh, share_of(mesh, a, layout));
  EXPECT_EQ(factor.outcome.status, Status::nonfinite_input);
  ASSERT_TRUE(factor.outcome.location.has_value());
  EXPECT_EQ(factor.outcome.location->column, GlobalIndex(49));
}

}  // namespace
}  // namespace shardsolve::testing
