// Sparse matrices on the host, and how rows are summed.

#include "matgen/sparse_matrices.hpp"
#include "runtime/sparse_row_sum.hpp"
#include "tests/support/dtypes.hpp"
#include "tests/support/thrown.hpp"

#include <shardsolve/sparse.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace shardsolve {
namespace {

using testing::expect_error;
using Indices = std::vector<std::int64_t>;

TEST(SortedSparse, EntriesInAnyOrder_ComeInOrderAndEqualPlacesAreAddedInTheirs) {
  // In the order given: 2^53 + 1 - 2^53 is 0, in any other 1.
  const CooMatrix<double> matrix{
      2, 3, {1, 0, 1, 0, 0, 0}, {2, 1, 0, 1, 0, 1}, {7, 0x1p53, 5, 1, 0, -0x1p53}};
  const CsrMatrix<double> result = sorted(matrix);
  EXPECT_EQ(result.row_pointers, (Indices{0, 2, 4}));
  EXPECT_EQ(result.column_indices, (Indices{0, 1, 0, 2}));
  EXPECT_EQ(result.values, (std::vector<double>{0, 0, 5, 7}));
}

TEST(SortedSparse, WrongEntries_AreRefused) {
  const auto refused = [](const CooMatrix<float>& matrix, const std::vector<std::string>& words) {
    expect_error([&] { sorted(matrix); }, ErrorKind::invalid_argument, words);
  };
  refused({-1, 3, {}, {}, {}}, {"-1 x 3"});
  refused({2, 3, {0, 1}, {0}, {1}}, {"2 row indices", "1 column"});
  refused({2, 3, {0, 2}, {0, 1}, {1, 2}}, {"entry 1", "(2, 1)", "2 x 3"});
  refused({2, 3, {0}, {-1}, {1}}, {"entry 0", "(0, -1)"});
}

TEST(TransposedSparse, Twice_IsTheMatrix) {
  for (const auto& [rows, columns] : {std::pair{37, 20}, std::pair{0, 5}, std::pair{5, 0}}) {
    const auto a = matgen::random_sparse<double>(rows, columns, 7, 1);
    const CsrMatrix<double> back = transposed(transposed(a));
    EXPECT_EQ(back.row_pointers, a.row_pointers);
    EXPECT_EQ(back.column_indices, a.column_indices);
    EXPECT_EQ(back.values, a.values);
  }
}

TEST(FirstNonfinite, OfSparseMatrix_SkipsEmptyRows) {
  CsrMatrix<double> a{4, 4, {0, 1, 1, 1, 3}, {2, 0, 3}, {1, 2, 3}};
  EXPECT_EQ(first_nonfinite(a), std::nullopt);
  a.values[1] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(first_nonfinite(a), (EntryPlace{3, 0}));
  a.values[0] = std::nan("");
  EXPECT_EQ(first_nonfinite(a), (EntryPlace{0, 2}));
}

TEST(RowLanes, OfMeanRow_IsThePowerOfTwoBelowHalf) {
  using runtime::row_lanes;
  EXPECT_EQ(row_lanes(0, 0), 1);
  EXPECT_EQ(row_lanes(10, 0), 1);
  EXPECT_EQ(row_lanes(10, 39), 1);
  EXPECT_EQ(row_lanes(10, 40), 2);
  EXPECT_EQ(row_lanes(10, 69), 2);
  EXPECT_EQ(row_lanes(10, 80), 4);
  EXPECT_EQ(row_lanes(10, 100000), 32);
}

template <class T>
class SparseMatgen : public ::testing::Test {};
TYPED_TEST_SUITE(SparseMatgen, testing::Dtypes, testing::DtypeNames);

TYPED_TEST(SparseMatgen, Matrices_AreInOrderAndOfTheirKind) {
  using T = TypeParam;
  const auto laplacian = matgen::laplacian_3d<T>(3);
  EXPECT_EQ(laplacian.entries(), 7 * 27 - 6 * 9);
  const auto turned = transposed(laplacian);
  EXPECT_EQ(turned.column_indices, laplacian.column_indices);
  EXPECT_EQ(turned.values, laplacian.values);
  const auto flow = matgen::convection_diffusion_2d<T>(3, 0.5, 0.25);
  EXPECT_EQ(flow.column_indices, (Indices{0, 1, 3, 0, 1, 2, 4, 1, 2, 5, 0, 3, 4, 6, 1, 3, 4,
                                          5, 7, 2, 4, 5, 8, 3, 6, 7, 4, 6, 7, 8, 5, 7, 8}));
  EXPECT_EQ(flow.values[1], T(-0.5));
  EXPECT_EQ(flow.values[2], T(-0.75));
  EXPECT_EQ(flow.values[3], T(-1.5));
  for (const auto& a : {laplacian, flow, matgen::random_sparse<T>(50, 20, 9, 4)}) {
    const auto again = sorted(a);
    EXPECT_EQ(again.column_indices, a.column_indices);
    EXPECT_EQ(again.values, a.values);
  }
  expect_error([] { matgen::laplacian_3d<T>(-1); }, ErrorKind::invalid_argument, {"-1"});
  expect_error([] { matgen::laplacian_3d<T>(600); }, ErrorKind::invalid_argument, {"600"});
}

}  // namespace
}  // namespace shardsolve
