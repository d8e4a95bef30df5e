// Every matrix of the zoo through factor, solve and inverse.

#include "reference/permute.hpp"
#include "support/dtypes.hpp"
#include "support/gates.hpp"
#include "support/matrix_zoo.hpp"
#include "support/sharded_problem.hpp"

#include <shardsolve/cholesky.hpp>

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve::testing {
namespace {

void expect_pivot(const ZooCase& zoo_case, const Outcome& outcome, const SlabLayout& layout) {
  const GlobalIndex row = zoo_case.recipe.row;
  ASSERT_EQ(outcome.status, Status::not_positive_definite) << outcome.message();
  ASSERT_TRUE(outcome.location && outcome.location->what == Located::pivot);
  EXPECT_EQ(outcome.location->row, row);
  EXPECT_EQ(outcome.location->rows_before, layout.position(row).value());
  EXPECT_FALSE(outcome.backward_error);
  EXPECT_FALSE(outcome.rcond);
}

/// A pivot that rounding decided about: any row, but one that exists and is counted rightly.
void expect_edge(const Outcome& outcome, const SlabLayout& layout) {
  ASSERT_EQ(outcome.status, Status::not_positive_definite) << outcome.message();
  ASSERT_TRUE(outcome.location && outcome.location->what == Located::pivot);
  EXPECT_EQ(layout.row_at(Position(outcome.location->rows_before)), outcome.location->row);
}

template <Scalar T>
void expect_solved(Mesh& mesh, const CholeskyFactor<T>& factor, const DenseMatrix<T>& a) {
  constexpr std::int64_t columns = 3;
  const DenseMatrix<T> b = right_hand_sides<T>(a.rows(), columns);
  const RightHandSides<T> x = shard_rows(b, factor.layout());
  const Outcome outcome = cholesky_solve(mesh, factor, x);
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_TRUE(solves(a, whole(x), b));
  EXPECT_LT(*outcome.backward_error, solve_gate * unit_roundoff<T>);
}

template <Scalar T>
void expect_inverted(Mesh& mesh, CholeskyFactor<T>&& factor, const DenseMatrix<T>& a) {
  const ShardedMatrix<T> slabs = factor.slabs;
  const Outcome outcome = cholesky_inverse(mesh, std::move(factor));
  ASSERT_TRUE(outcome.ok()) << outcome.message();
  EXPECT_TRUE(inverts(a, whole(slabs)));
  EXPECT_LT(*outcome.backward_error, inverse_gate * unit_roundoff<T>);
}

/// The factor of one matrix, checked; none if it is refused, rightly.
template <Scalar T>
std::optional<CholeskyFactor<T>> factored(Mesh& mesh, const ZooCase& zoo_case,
                                          const SlabLayout& layout) {
  const DenseMatrix<T> a = dense<T>(zoo_case.recipe);
  CholeskyFactor<T> factor = cholesky_factor(mesh, shard(a, layout));
  if (zoo_case.expect == Expect::not_positive_definite) {
    expect_pivot(zoo_case, factor.outcome, layout);
    return std::nullopt;
  }
  const DenseMatrix<T> pap = reference::permute(a, layout);
  if (zoo_case.expect == Expect::edge) {
    EXPECT_TRUE(verdict_is_explained(pap, factor.outcome.ok()));
    if (!factor.outcome.ok()) {
      expect_edge(factor.outcome, layout);
      return std::nullopt;
    }
  }
  if (!factor.outcome.ok()) {
    ADD_FAILURE() << factor.outcome.message();
    return std::nullopt;
  }
  EXPECT_TRUE(factors(pap, reference::permute(whole(factor.slabs), layout)));
  return factor;
}

struct Tour {
  std::string name;
  SlabLayout layout;
  bool kernels_only = false;  ///< of many rows: the others are checked in small
};

std::vector<Tour> tours() {
  return {
      {"four_ranks", SlabLayout::even(67, 4, 6)},
      {"uneven_slabs", SlabLayout({0, 31, 31, 44, 59}, 5)},
      {"one_tile", SlabLayout::even(7, 1, 8)},
      {"one_row", SlabLayout::even(1, 2, 8)},
      // panels formed with an explicit inverse lose all digits where leading tiles are this wide
      {"kernels_of_many_tiles", SlabLayout::even(227, 3, 24), true},
      // and sums of inverses that begin with their largest term lose one digit in wide ones
      {"kernels_of_one_tile", SlabLayout::even(227, 1, 227), true}};
}

/// Calls visit(mesh, case, factor, a) for every matrix that has a factor.
template <Scalar T, class Visit>
void for_each_factor(Visit visit) {
  for (const Tour& tour : tours()) {
    Mesh mesh = make_mesh(tour.layout.ranks());
    for (const ZooCase& zoo_case : matrix_zoo(dtype_of<T>, tour.layout.size())) {
      if (tour.kernels_only && zoo_case.name.find("jitter") == std::string::npos) {
        continue;
      }
      SCOPED_TRACE(tour.name + " " + zoo_case.name);
      if (std::optional<CholeskyFactor<T>> factor = factored<T>(mesh, zoo_case, tour.layout)) {
        visit(mesh, *std::move(factor), dense<T>(zoo_case.recipe));
      }
    }
  }
}

template <class T>
class Zoo : public ::testing::Test {};
TYPED_TEST_SUITE(Zoo, Dtypes, DtypeNames);

TYPED_TEST(Zoo, EveryMatrix_IsFactoredAndSolvedOrRefusedRightly) {
  using T = TypeParam;
  for_each_factor<T>([](Mesh& mesh, const CholeskyFactor<T>& factor, const DenseMatrix<T>& a) {
    expect_solved(mesh, factor, a);
  });
}

TYPED_TEST(Zoo, EveryMatrixWithAFactor_IsInverted) {
  using T = TypeParam;
  for_each_factor<T>([](Mesh& mesh, CholeskyFactor<T>&& factor, const DenseMatrix<T>& a) {
    expect_inverted(mesh, std::move(factor), a);
  });
}

}  // namespace
}  // namespace shardsolve::testing
