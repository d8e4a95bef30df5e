// A factor is kept and used again; where a matrix lies makes no difference.

#include "support/bits.hpp"
#include "support/cuts.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/cholesky.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

constexpr std::int64_t reuse_tile = 8;

SlabLayout uneven_cut() { return SlabLayout({0, 30, 30, 49, 70}, reuse_tile); }

template <class T>
class Reuse : public ::testing::Test {};
TYPED_TEST_SUITE(Reuse, Dtypes, DtypeNames);

TYPED_TEST(Reuse, FactorUsedAgain_GivesTheSameBits) {
  using T = TypeParam;
  const SlabLayout layout = uneven_cut();
  Mesh mesh = make_mesh(layout.ranks());
  const DenseMatrix<T> a = dense<T>({.n = layout.size(), .seed = 3});
  const DenseMatrix<T> b = right_hand_sides<T>(layout.size(), 5);
  const CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
  const DenseMatrix<T> slabs = whole(factor.slabs);
  DenseMatrix<T> first;
  for (int use = 0; use < 4; ++use) {
    const RightHandSides<T> x = shard_rows(b, layout);
    const Outcome outcome = cholesky_solve(mesh, factor, x);
    ASSERT_TRUE(outcome.ok()) << outcome.message();
    first = use == 0 ? whole(x) : first;
    EXPECT_TRUE(same_bits(whole(x), first));
    condition_estimate(mesh, factor);
    EXPECT_TRUE(same_bits(whole(factor.slabs), slabs)) << "the factor has changed";
  }
}

/// Right-hand sides are taken a tile at a time: the seams are at multiples of it.
TYPED_TEST(Reuse, AnyNumberOfRightHandSides_IsSolved) {
  using T = TypeParam;
  const SlabLayout layout = uneven_cut();
  Mesh mesh = make_mesh(layout.ranks());
  const DenseMatrix<T> a = dense<T>({.n = layout.size(), .seed = 3});
  const CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
  for (const std::int64_t columns : {std::int64_t{0}, std::int64_t{1}, reuse_tile - 1, reuse_tile,
                                     reuse_tile + 1, 3 * reuse_tile}) {
    SCOPED_TRACE(columns);
    const DenseMatrix<T> b = right_hand_sides<T>(layout.size(), columns);
    const RightHandSides<T> x = shard_rows(b, layout);
    const Outcome outcome = cholesky_solve(mesh, factor, x);
    ASSERT_TRUE(outcome.ok()) << outcome.message();
    EXPECT_TRUE(solves(a, whole(x), b));
    EXPECT_LT(*outcome.backward_error, solve_gate * unit_roundoff<T>);
  }
}

TYPED_TEST(Reuse, ZeroRightHandSides_GiveZero) {
  using T = TypeParam;
  const SlabLayout layout = uneven_cut();
  Mesh mesh = make_mesh(layout.ranks());
  const DenseMatrix<T> a = dense<T>({.n = layout.size(), .seed = 3});
  const RightHandSides<T> x = shard_rows(DenseMatrix<T>(layout.size(), 2), layout);
  const Outcome outcome = solve(mesh, shard(a, layout), x);
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_EQ(*outcome.backward_error, 0.0);
  EXPECT_TRUE(whole(x) == DenseMatrix<T>(layout.size(), 2));
}

TYPED_TEST(Reuse, EmptyMatrix_HasDeterminantOneAndConditionOne) {
  using T = TypeParam;
  const SlabLayout layout = SlabLayout::even(0, 3, reuse_tile);
  Mesh mesh = make_mesh(3);
  CholeskyFactor<T> factor = cholesky_factor(mesh, to_devices(ShardedMatrix<T>(layout)));
  ASSERT_TRUE(factor.outcome.ok());
  EXPECT_EQ(log_determinant(factor), 0.0);
  EXPECT_EQ(condition_estimate(mesh, factor), 1.0);
  for (const std::int64_t columns : {0, 3}) {
    EXPECT_TRUE(cholesky_solve(mesh, factor, to_devices(RightHandSides<T>(layout, columns))).ok());
  }
  EXPECT_TRUE(cholesky_inverse(mesh, std::move(factor)).ok());
}

/// The slabs of a matrix inside memory of the caller, with gaps between columns. Each column is
/// aligned as in memory of ours: the sums of some BLAS kernels (OpenBLAS's for old CPUs) depend on
/// that.
template <Scalar T>
class Adopted {
 public:
  Adopted(const DenseMatrix<T>& a, const SlabLayout& layout) {
    constexpr std::int64_t line = 64;
    constexpr std::int64_t gap = line / std::int64_t{sizeof(RealOf<T>)};
    const std::int64_t stride = a.rows() + gap;
    std::vector<MatrixView<T>> slabs;
    for (std::int64_t rank = 0; rank < layout.ranks(); ++rank) {
      const GlobalRange columns = layout.segment(rank);
      memory_.emplace_back(static_cast<std::size_t>(gap + stride * columns.size()), marker);
      void* first = memory_.back().data();
      std::size_t space = memory_.back().size() * sizeof(T);
      std::align(line, 1, first, space);
      slabs.emplace_back(static_cast<T*>(first), a.rows(), columns.size(), stride);
      copy_entries<T>(a.view().columns_from(columns.begin.value(), columns.size()), slabs.back());
    }
    matrix_.emplace(layout, slabs);
  }

  const ShardedMatrix<T>& matrix() const { return *matrix_; }
  /// Whether nothing was written between the columns.
  bool gaps_intact() const {
    for (std::size_t rank = 0; rank < memory_.size(); ++rank) {
      const MatrixView<T> slab = matrix_->slab(static_cast<std::int64_t>(rank));
      for (std::size_t i = 0; i < memory_[rank].size(); ++i) {
        const auto place = static_cast<std::int64_t>(i) - (slab.data() - memory_[rank].data());
        const bool inside = place >= 0 && place % slab.stride() < slab.rows();
        if (!inside && memory_[rank][i] != marker) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  static constexpr T marker{77};
  std::vector<std::vector<T>> memory_;
  std::optional<ShardedMatrix<T>> matrix_;
};

/// Right-hand sides and matrix solved and inverted: everything that memory could change.
template <Scalar T>
struct Everything {
  DenseMatrix<T> x;
  DenseMatrix<T> inverse;
  double rcond = 0.0;
};

template <Scalar T>
Everything<T> everything(Mesh& mesh, const ShardedMatrix<T>& a, const RightHandSides<T>& b) {
  CholeskyFactor<T> factor = cholesky_factor(mesh, a);
  EXPECT_TRUE(cholesky_solve(mesh, factor, b).ok());
  const double rcond = condition_estimate(mesh, factor);
  EXPECT_TRUE(cholesky_inverse(mesh, std::move(factor)).ok());
  return {whole(b), whole(a), rcond};
}

template <Scalar T>
void expect_same(const Everything<T>& a, const Everything<T>& b) {
  EXPECT_TRUE(same_bits(a.x, b.x));
  EXPECT_TRUE(same_bits(a.inverse, b.inverse));
  EXPECT_EQ(a.rcond, b.rcond);
}

TYPED_TEST(Reuse, AdoptedMemory_GivesTheSameBitsAsOwnMemory) {
  using T = TypeParam;
  const SlabLayout layout = uneven_cut();
  Mesh mesh = make_mesh(layout.ranks());
  DenseMatrix<T> a = dense<T>({.n = layout.size(), .seed = 3});
  for (const std::int64_t columns : {1, 11}) {
    DenseMatrix<T> b = right_hand_sides<T>(layout.size(), columns);
    const auto own = everything(mesh, shard(a, layout), shard_rows(b, layout));

    const Adopted<T> adopted(a, layout);
    expect_same(everything(mesh, adopted.matrix(), shard_rows(b, layout)), own);
    EXPECT_TRUE(adopted.gaps_intact());

    DenseMatrix<T> one_piece = a;
    const ShardedMatrix<T> view(layout, one_piece.view());
    expect_same(everything(mesh, view, RightHandSides<T>(layout, b.view())), own);
    EXPECT_TRUE(same_bits(one_piece, own.inverse)) << "the caller's memory holds the result";
    EXPECT_TRUE(same_bits(b, own.x));
  }
}

/// The certificate is found with what is left of A, so it tells the truth about a bad factor.
TYPED_TEST(Reuse, FactorDamagedAfterwards_IsToldByTheCertificate) {
  using T = TypeParam;
  const SlabLayout layout = uneven_cut();
  Mesh mesh = make_mesh(layout.ranks());
  const DenseMatrix<T> a = dense<T>({.n = layout.size(), .seed = 3});
  const DenseMatrix<T> b = right_hand_sides<T>(layout.size(), 2);
  CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
  const GlobalIndex last = layout.row_at(Position(layout.size() - 1));
  const std::int64_t owner = layout.owner(layout.row_at(Position(1)));
  factor.slabs.slab(owner)(last.value(), 1) += static_cast<RealOf<T>>(0.5);  // an entry of L
  const RightHandSides<T> x = shard_rows(b, layout);
  const Outcome solved = cholesky_solve(mesh, factor, x);
  EXPECT_EQ(solved.status, Status::inaccurate);
  const double truth = solve_ratio(a, whole(x), b) * unit_roundoff<T>;
  EXPECT_GT(truth, 1e-4);
  EXPECT_NEAR(*solved.backward_error / truth, 1.0, 1e-2);
  const Outcome inverted = cholesky_inverse(mesh, std::move(factor));
  EXPECT_EQ(inverted.status, Status::inaccurate);
  EXPECT_GT(*inverted.backward_error, 1e-5);
}

}  // namespace
}  // namespace shardsolve::testing
